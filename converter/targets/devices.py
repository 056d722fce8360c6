"""Runtimes that take the standard, in which nothing is gained by a detour through float64.

OpenVINO computes float64 in float32 (``docs/runtimes.md``). TensorRT is reported to have none, and
to take attention in four dimensions with one output from 10.14 on; we cannot run it.
"""

from __future__ import annotations

from dataclasses import replace

from converter.graph import ops
from converter.targets.standard import STANDARD
from converter.targets.target import HALF, Missing

KERNELS = {**STANDARD.kernels, **dict.fromkeys((ops.digamma, ops.lgamma), Missing(HALF))}

TENSORRT = replace(STANDARD, name="tensorrt", kernels=KERNELS)
OPENVINO = replace(STANDARD, name="openvino", kernels=KERNELS)
