"""Bilinear resizing with aligned corners, and its recogniser for ONNX."""

from collections.abc import Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import converter
from converter.fuse.named_calls import Candidate, call_results, find_call
from converter.ir import Node, Value, dims, ops
from converter.ir.dims import Shape
from converter.ir.formulas import ALIGNED
from converter.ir.rewrite import Editor
from zoo.architectures.parts.layers import Size

Map = Float[Array, "channels height width"]


def resize_aligned(x: Map, size: Sequence[Size]) -> Float[Array, "channels h w"]:
    """Return a map resized bilinearly, so that its corner pixels are the corner pixels of the
    result.

    It equals torch's `interpolate(…, mode="bilinear", align_corners=True)`: a single row or column
    is repeated, and a result with one row or column has the first one. It becomes one `Resize` in
    ONNX.

    **Arguments:**

    - `x`: the map.
    - `size`: (height, width) of the result.
    """
    return _resize_aligned(x, tuple(size))


@partial(jax.jit, static_argnames="size")
def _resize_aligned(x: Map, size: tuple[Size, ...]) -> Float[Array, "channels h w"]:
    """Return the map resized bilinearly to the (height, width) `size`, with its corner pixels as
    the corner pixels of the result.

    The recogniser for ONNX finds calls of this jitted function by its name.
    """
    for axis, count in enumerate(size, start=1):
        weights = _weights(x.shape[axis], count).astype(x.dtype)
        product = jnp.tensordot(x, weights, (axis, 0), precision="highest")
        x = jnp.moveaxis(product, -1, axis)
    return x


def _weights(size: Size, count: Size) -> Float[Array, "size count"]:
    """Return the matrix `[size, count]` of a linear interpolation from `size` samples to `count`
    samples. The first samples coincide, and so do the last ones. Column `j` has the weights of the
    new sample `j`."""
    steps = jnp.maximum(jnp.asarray(count - 1, jnp.float32), 1)
    positions = jnp.arange(count, dtype=jnp.float32) * (jnp.asarray(size - 1, jnp.float32) / steps)
    return jnp.maximum(0, 1 - jnp.abs(positions - jnp.arange(size, dtype=jnp.float32)[:, None]))


@converter.recogniser("resize", calls=("_resize_aligned",))
def _(node: Node, editor: Editor) -> list[Value] | None:
    """Replace a call of `resize_aligned` by the converter's resize operation, and return the values
    that replace its results. Return None if the node is not such a call."""
    call = find_call(node, _candidates)
    if call is None:
        return None
    x, method = node.inputs[0], ALIGNED[0]
    axes = [i for i in range(x.rank) if not dims.is_same_dim(x.shape[i], call.shape[i])]
    sizes = tuple(call.shape[axis] for axis in axes)
    params = {"axes": tuple(axes), "sizes": sizes, "method": method, "antialias": False}
    resized = editor.add(ops.image_resize, [x], call.shape, x.dtype, params)
    return call_results(node, editor.transpose(resized, call.order), editor)


def _candidates(shape: Shape, result: Shape) -> Iterator[Candidate[None]]:
    """Yield the pair of None and the function that a call must equal.

    The function is `_resize_aligned` to the height and width of the shape `result`. Nothing is
    yielded if `shape`, that of the operand, does not have three axes.
    """
    if len(shape) == 3:
        yield None, partial(_resize_aligned, size=result[1:])
