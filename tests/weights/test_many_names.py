"""A great many long names in a file, told in little time whatever is in them."""

import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.checkpoints.inspect import inspect
from zoo.checkpoints.weights_argument import Given

COUNT, SECONDS = 1_500, 6
"""Of a processor; the names take a fifth of them, and took twice as many without an index."""

NAMES = {
    "many segments": lambda number: "a." * 150 + str(number),
    "one long segment": lambda number: f"module.backbone.blocks.{number}." + "x" * 280,
    "numbers": lambda number: f"blocks.{number}." + "1." * 140 + "weight",
}


@pytest.mark.each("kind")
@pytest.mark.parametrize("kind", NAMES)
def test_long_names(kind, tmp_path):
    value = np.zeros(1, np.float32)
    save_file({NAMES[kind](number): value for number in range(COUNT)}, tmp_path / "w.safetensors")
    began = time.process_time()
    assert not inspect(Given(tmp_path / "w.safetensors")).models
    assert time.process_time() - began < SECONDS
