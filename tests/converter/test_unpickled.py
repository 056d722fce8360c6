"""A process in which dtypes came out of a pickle first converts to the same bytes."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import converter
from tests.converter.unpickled import WAYS


def digests(*how: str) -> dict[str, str]:
    """By program."""
    command = [sys.executable, "-m", "tests.converter.unpickled", *how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.full
def test_the_same_bytes():
    """Of every dtype; `tests/fuzz` draws programs with such dtypes."""
    undisturbed = digests()
    assert all(len(found) == 64 for found in undisturbed.values()), "something was refused"
    assert digests("disturb") == undisturbed


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_given_by_hand(way, tmp_path):
    """In specs, in what is bound when saving, and in what a file is compared with."""
    dtype = WAYS[way](np.dtype(np.float32))
    w = np.ones((3, 4), dtype)
    fn = lambda p, x: x @ p["w"].T  # noqa: E731
    x = np.ones((2, 4), dtype)
    for params in ({"w": w}, {"w": jax.ShapeDtypeStruct((3, 4), dtype)}):
        export = converter.to_onnx(fn, [(("B", 4), dtype)], params=params)
        export.save(tmp_path / "model.onnx", {"w": w})
        verdict = converter.check(tmp_path / "model.onnx", lambda x: fn({"w": w}, x), [x])
        assert verdict.passed, verdict.differences


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_bytes_in_the_other_order(dtype, tmp_path):
    """A parameter is compared by the numbers that it holds, not by how they lie in memory."""
    fn = lambda p, x: x + p["w"]  # noqa: E731
    w = np.arange(4).astype(dtype)
    export = converter.to_onnx(fn, [(3, 4)], params={"w": jax.ShapeDtypeStruct((4,), w.dtype)})
    for name, given in (("own", w), ("other", w.astype(w.dtype.newbyteorder("S")))):
        export.save(tmp_path / name, {"w": given})
    assert (tmp_path / "own").read_bytes() == (tmp_path / "other").read_bytes()
