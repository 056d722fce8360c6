"""Bilinear resizing whose corners stay corners, and what it becomes in ONNX."""

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
    """Return a map resized bilinearly, its corners on those of the result.

    Equals torch's `interpolate(…, mode="bilinear", align_corners=True)`: one row or column is
    repeated, and where one is wanted it is the first. Becomes one `Resize` in ONNX.

    **Arguments:** the map, and (height, width) of the result.
    """
    return _resize_aligned(x, tuple(size))


@partial(jax.jit, static_argnames="size")
def _resize_aligned(x: Map, size: tuple[Size, ...]) -> Float[Array, "channels h w"]:
    for axis, count in enumerate(size, start=1):
        weights = _weights(x.shape[axis], count).astype(x.dtype)
        product = jnp.tensordot(x, weights, (axis, 0), precision="highest")
        x = jnp.moveaxis(product, -1, axis)
    return x


def _weights(size: Size, count: Size) -> Float[Array, "size count"]:
    steps = jnp.maximum(jnp.asarray(count - 1, jnp.float32), 1)
    places = jnp.arange(count, dtype=jnp.float32) * (jnp.asarray(size - 1, jnp.float32) / steps)
    return jnp.maximum(0, 1 - jnp.abs(places - jnp.arange(size, dtype=jnp.float32)[:, None]))


@converter.recogniser("resize", calls=("_resize_aligned",))
def _(node: Node, editor: Editor) -> list[Value] | None:
    """Name the calls of `resize_aligned`; the converter has an operator for what they do."""
    call = find_call(node, _candidates)
    if call is None:
        return None
    x, method = node.inputs[0], ALIGNED[0]
    axes = [i for i in range(x.rank) if not dims.same(x.shape[i], call.shape[i])]
    sizes = tuple(call.shape[axis] for axis in axes)
    params = {"axes": tuple(axes), "sizes": sizes, "method": method, "antialias": False}
    made = editor.add(ops.image_resize, [x], call.shape, x.dtype, params)
    return call_results(node, editor.transpose(made, call.order), editor)


def _candidates(shape: Shape, result: Shape) -> Iterator[Candidate[None]]:
    """Yield the function that gives this shape for a map of that one."""
    if len(shape) == 3:
        yield None, partial(_resize_aligned, size=result[1:])
