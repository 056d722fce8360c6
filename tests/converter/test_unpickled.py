"""Conversions with dtypes that equal numpy's but are other objects, such as unpickled ones.

Files have the same bytes as with numpy's dtypes.
"""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import converter
from tests.converter.unpickled import DTYPE_COPIES


def digests(*arguments: str) -> dict[str, str]:
    """Return digests of files by program, computed in a new process."""
    command = [sys.executable, "-m", "tests.converter.unpickled", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(process.stdout)


@pytest.mark.full
def test_unpickled_dtypes_give_the_same_bytes():
    """Programs of every dtype give the same bytes; `tests/fuzz` draws more programs."""
    undisturbed = digests()
    assert all(len(value) == 64 for value in undisturbed.values()), "a program was not converted"
    assert digests("disturb") == undisturbed


@pytest.mark.parametrize("index", range(len(DTYPE_COPIES)))
def test_copied_dtypes_are_accepted(index, tmp_path):
    """Copies of dtypes may be in specs, in values that are bound, and in inputs of a check."""
    dtype = DTYPE_COPIES[index](np.dtype(np.float32))
    w = np.ones((3, 4), dtype)
    fn = lambda p, x: x @ p["w"].T  # noqa: E731
    x = np.ones((2, 4), dtype)
    for params in ({"w": w}, {"w": jax.ShapeDtypeStruct((3, 4), dtype)}):
        export = converter.to_onnx(fn, [(("B", 4), dtype)], params=params)
        export.save(tmp_path / "model.onnx", {"w": w})
        verdict = converter.check(tmp_path / "model.onnx", lambda x: fn({"w": w}, x), [x])
        assert verdict.passed, verdict.differences


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_byte_order_does_not_change_the_file(dtype, tmp_path):
    """The byte order of a parameter's values in memory does not change the file."""
    fn = lambda p, x: x + p["w"]  # noqa: E731
    w = np.arange(4).astype(dtype)
    export = converter.to_onnx(fn, [(3, 4)], params={"w": jax.ShapeDtypeStruct((4,), w.dtype)})
    for name, weights in (("own", w), ("other", w.astype(w.dtype.newbyteorder("S")))):
        export.save(tmp_path / name, {"w": weights})
    assert (tmp_path / "own").read_bytes() == (tmp_path / "other").read_bytes()
