"""Evaluate single nodes in a wider dtype than their own."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.frontend.array_forms import DRAWING_PRIMITIVES, GraphFormFunction
from converter.frontend.diagnostics import DIMENSION_ERRORS
from converter.ir import Node, Value, make_node, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import Sizes, run_eagerly, run_node, runs_in_numpy, use_precision_of

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")

DTYPE_OPS = frozenset(
    {ops.convert_element_type, ops.bitcast_convert_type, ops.reduce_precision, ops.nextafter}
)
"""Operations that have other results in a wider dtype, also if these are rounded."""


def depends_on_dtype(node: Node) -> bool:
    """Return True if a node has other results in a wider dtype, also if these are rounded.

    It converts numbers, draws random ones, or calls a function of the user.
    """
    function = node.meaning
    draws = (
        isinstance(function, GraphFormFunction) and function.primitive.name in DRAWING_PRIMITIVES
    )
    return node.op in DTYPE_OPS or node.op.calls or draws


def run_step(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Return the results of a node as IEEE 754 defines them, with subnormal numbers.

    JAX treats subnormal numbers of float32 as zero. If there are any, the node is computed in
    float64 and its results are rounded. ``args`` are the arrays of its operands.
    """
    results = _run(node, args, sizes)
    if runs_in_numpy(node) or depends_on_dtype(node):
        return results
    if not any(map(has_subnormal, args)) and not any(map(_has_zero, results)):
        return results
    wide = widen_node(node, FLOAT64)
    try:
        rounded = cast(_run(wide, cast(args, wide.inputs), sizes), node.outputs)
    except DIMENSION_ERRORS:
        # Some operations contain a function of a given dtype, such as the reduction of `reduce`.
        return results
    return rounded if any(map(has_subnormal, (*args, *rounded))) else results


def run_in_float32(
    node: Node, args: Sequence[Any], sizes: Sizes, *, rounds_widened: bool
) -> list[Any]:
    """Return the results of a node in which float16 and bfloat16 are replaced by float32.

    Arguments:
        node: the node.
        args: the arrays of its operands, in either dtype. They are rounded if the results of the
            node depend on the dtype, or if JAX cannot replace it.
        sizes: the sizes of named dimensions.
        rounds_widened: whether the operand of a conversion from float16 to float32 or float64 is
            rounded.
    """
    if is_widening(node) and not rounds_widened:
        return cast(args, node.outputs)
    if not depends_on_dtype(node):
        wide = widen_node(node, FLOAT32)
        try:
            return run_step(wide, cast(args, wide.inputs), sizes)
        except DIMENSION_ERRORS:
            pass  # such as the reduction of `reduce`, which is a function of a given dtype
    return run_step(node, cast(args, node.inputs), sizes)


def is_widening(node: Node) -> bool:
    """Return True if a node converts float16 to float32 or float64."""
    if node.op is not ops.convert_element_type or node.inputs[0].dtype != np.float16:
        return False
    return node.outputs[0].dtype in (FLOAT32, FLOAT64)


def _run(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Return the results of a node in its dtype."""
    # numpy's power is a square root for an exponent of one half, which is NaN for -inf.
    if node.op is not ops.pow:
        return run_eagerly(node, args, sizes)
    with use_precision_of([node]):
        return run_node(node, args, sizes)


def cast(arrays: Sequence[Any], values: Sequence[Value]) -> list[Any]:
    """Return the arrays in the dtypes of some values."""
    return [np.asarray(x).astype(v.dtype, copy=False) for x, v in zip(arrays, values, strict=True)]


def is_half(dtype: np.dtype) -> bool:
    """Return True for the floats of 16 bits, float16 and bfloat16."""
    return is_float(dtype) and dtype.itemsize == 2


def has_subnormal(array: Any) -> bool:
    """Return True if a float of the array is subnormal."""
    array = np.asarray(array)
    if not is_float(array.dtype):
        return False
    smallest = float(jnp.finfo(array.dtype).smallest_normal)
    magnitude = np.abs(array.astype(np.float64))
    return bool(((magnitude < smallest) & (magnitude > 0)).any())


def _has_zero(array: Any) -> bool:
    """Return True if a float of the array is zero, as a flushed subnormal number is."""
    array = np.asarray(array)
    return is_float(array.dtype) and bool((array == 0).any())


def _widen_dtype(dtype: Any, wider: np.dtype) -> Any:
    """Return ``wider`` for a float of 16 bits or more that is narrower. Anything else is returned
    unchanged."""
    is_narrow = isinstance(dtype, np.dtype) and is_float(dtype)
    return wider if is_narrow and 1 < dtype.itemsize < wider.itemsize else dtype


def widen_node(node: Node, wider: np.dtype) -> Node:
    """Return a node that computes in the dtype ``wider`` what ``node`` computes in narrower
    floats. Its operands belong to no graph."""
    inputs = [Value(v.shape, _widen_dtype(v.dtype, wider), kind="input") for v in node.inputs]
    types = [(v.shape, _widen_dtype(v.dtype, wider)) for v in node.outputs]
    params = {name: _widen_dtype(param, wider) for name, param in node.params.items()}
    return make_node(node.op, inputs, types, params, meaning=node.meaning)
