"""The same files by the standard's own evaluator and in OpenVINO: right by more than one runtime.

Where one of them differs from JAX and ONNX Runtime, the operator's text decides; what is then a
runtime's own doing is in `tests/judges/habits`, and the cases that show it are listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import converter
import zoo
from tests.conformance import Case, assert_close, inputs, spec_of
from tests.converter import test_conformance_control as control
from tests.converter import test_conformance_elementwise as elementwise
from tests.converter import test_conformance_indexing as indexing
from tests.converter import test_conformance_layers as layers
from tests.converter import test_conformance_reduce as reduce
from tests.converter import test_conformance_resize as resize
from tests.converter import test_conformance_window as window
from tests.converter.test_recognisers import ALL
from tests.judges.evaluator import evaluate
from tests.judges.runtimes import Apart
from tests.recognisers import Form
from tests.seeded import model_of, nano
from zoo.models.build import batched
from zoo.models.config import Config, ConvNeXtConfig

pytestmark = pytest.mark.full
