"""Named calls of JAX (resize, map_coordinates): recognised under `jax.vmap`.

`tests/programs/resize.py` and `sampling.py` have further programs.
"""

from functools import partial

import jax
import pytest

import converter
from converter.frontend.trace import trace
from converter.fuse import resize
from converter.fuse.named_calls import CALLS, find_call
from converter.ir import ops

METHODS = ("nearest", "linear", "cubic", "lanczos3")


def traced_calls(fn, *specs):
    """Return the named calls in the traced graph of a function."""
    graph = trace(fn, specs, kept_calls=frozenset(CALLS))
    return [node for node in graph.walk() if node.op is ops.named_call]


def resized(x, method="linear", antialias=True, size=(3, 9, 4)):
    return jax.image.resize(x, size, method, antialias)


@pytest.mark.each("out_axis", "dtype")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("out_axis", [0, 2])
@pytest.mark.parametrize("in_axis", [0, 1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_batched_resize_is_recognised_at_any_axis(method, in_axis, out_axis, dtype):
    """The recogniser finds the batch axis although batch and channels have the same size."""
    shape = [3, 5, 7]
    shape.insert(in_axis, 3)
    for antialias in (True, False):
        fn = jax.vmap(partial(resized, method=method, antialias=antialias), in_axis, out_axis)
        (call,) = traced_calls(fn, jax.ShapeDtypeStruct(tuple(shape), dtype))
        match = find_call(call, resize._candidates)
        assert match is not None and match.candidate[0] == method
        # One axis is enlarged and one reduced, so that antialiasing matters except for "nearest".
        assert method == "nearest" or match.candidate[1] == antialias
        sizes = [d for i, d in enumerate(match.shape) if i != in_axis]
        assert (match.shape[in_axis], sizes) == (3, [3, 9, 4])


def test_calls_excluded_from_fusion_are_inlined():
    for fuse in (False, ["gelu"]):
        export = converter.to_onnx(resized, [(3, 5, 7)], fuse=fuse)
        assert "Resize" not in export.report.histogram
    assert converter.to_onnx(resized, [(3, 5, 7)], fuse=["resize"]).report.fused["Resize"] == 1
