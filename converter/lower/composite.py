"""Rules for what the recognisers and the arrangement write."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from converter.graph import dims, ops
from converter.lower.build import Builder
from converter.lower.registry import rule, table

table(
    {
        ops.matmul: "MatMul",
        ops.relu: "Relu",
        ops.hard_swish: "HardSwish",
        ops.selu: "Selu",
        ops.softplus: "Softplus",
        ops.mish: "Mish",
        ops.soft_sign: "Softsign",
    }
)


@rule(ops.factor, ignores=("divides",))
def _(b: Builder, x: ir.Value) -> ir.Value:
    """Of a program that is larger than what it is made of, and stays in the graph."""
    return x


@rule(ops.clip)
def _(b: Builder, x: ir.Value, *, low: float, high: float) -> ir.Value:
    return b.op("Clip", x, b.like(low), b.like(high))


@rule(ops.hard_sigmoid)
def _(b: Builder, x: ir.Value, *, alpha: float = 1 / 6, beta: float = 0.5) -> ir.Value:
    return b.op("HardSigmoid", x, alpha=alpha, beta=beta)


@rule(ops.swish, since=24)
def _(b: Builder, x: ir.Value, *, alpha: float = 1) -> ir.Value:
    return b.op("Swish", x, alpha=None if alpha == 1 else alpha)


@rule(ops.leaky_relu)
def _(b: Builder, x: ir.Value, *slopes: ir.Value, slope: float = 1) -> ir.Value:
    return b.op("PRelu", x, *slopes) if slopes else b.op("LeakyRelu", x, alpha=slope)


@rule(ops.elu)
def _(b: Builder, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    return b.op("Elu", x, alpha=alpha)


@rule(ops.celu)
def _(b: Builder, x: ir.Value, *, alpha: float) -> ir.Value:
    return b.op("Celu", x, alpha=alpha)


@rule(ops.layer_norm)
def _(b: Builder, *xs: ir.Value, axis: int, epsilon: float) -> ir.Value:
    return b.op("LayerNormalization", *xs, axis=axis - b.out.rank, epsilon=epsilon)


@rule(ops.rms_norm, since=23)
def _(b: Builder, x: ir.Value, scale: ir.Value, *, axis: int, epsilon: float) -> ir.Value:
    return b.op("RMSNormalization", x, scale, axis=axis - b.out.rank, epsilon=epsilon)


@rule(ops.group_norm)
def _(b: Builder, x: ir.Value, *xs: ir.Value, groups: int, epsilon: float) -> ir.Value:
    if groups == b.out.shape[1]:
        return b.op("InstanceNormalization", x, *xs, epsilon=epsilon)
    return b.op("GroupNormalization", x, *xs, epsilon=epsilon, num_groups=groups)


@rule(ops.batch_norm)
def _(b: Builder, x: ir.Value, *xs: ir.Value, epsilon: float) -> ir.Value:
    scale, mean, variance, bias = xs
    return b.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon)


@rule(ops.softmax)
def _(b: Builder, x: ir.Value, *, axis: int) -> ir.Value:
    return b.op("Softmax", x, axis=axis - b.out.rank)


@rule(ops.log_softmax)
def _(b: Builder, x: ir.Value, *, axis: int) -> ir.Value:
    return b.op("LogSoftmax", x, axis=axis - b.out.rank)


@rule(ops.gelu, since=20)
def _(b: Builder, x: ir.Value, *, approximate: bool) -> ir.Value:
    return b.op("Gelu", x, approximate="tanh" if approximate else None)


@rule(ops.gelu)
def _(b: Builder, x: ir.Value, *, approximate: bool) -> ir.Value:
    """In the spelling that optimisers of runtimes know, and make one kernel of."""
    gate = b.op("Tanh", _tanh_argument(b, x)) if approximate else _erf_gate(b, x)
    return b.op("Mul", b.op("Mul", x, b.like(0.5)), b.op("Add", gate, b.like(1)))


def _erf_gate(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("Erf", b.op("Div", x, b.like(math.sqrt(2))))


def _tanh_argument(b: Builder, x: ir.Value) -> ir.Value:
    """sqrt(2/pi) x (1 + 0.044715 x^2)."""
    square = b.op("Mul", b.op("Mul", x, b.like(0.044715)), x)
    scaled = b.op("Mul", x, b.like(math.sqrt(2 / math.pi)))
    return b.op("Mul", scaled, b.op("Add", square, b.like(1)))


@rule(ops.rotary_heads, since=23)
def _(
    b: Builder,
    x: ir.Value,
    cos: ir.Value,
    sin: ir.Value,
    positions: ir.Value,
    *,
    heads: int,
    interleaved: bool,
) -> ir.Value:
    return b.op(
        "RotaryEmbedding",
        x,
        cos,
        sin,
        positions,
        interleaved=1 if interleaved else None,
        num_heads=heads if b.out.rank == 3 else None,
    )


@rule(ops.attention, since=23)
def _(
    b: Builder,
    *xs: ir.Value,
    scale: float,
    softcap: float,
    q_heads: int,
    kv_heads: int,
    precision: Any,
) -> ir.Value:
    flat = b.out.rank == 3
    width = b.operand().shape[-1]
    width = width // q_heads if flat else width
    usual = dims.is_static(width) and math.isclose(scale, width**-0.5, rel_tol=1e-6)
    wider = b.out.dtype != precision
    return b.op(
        "Attention",
        *xs,
        scale=None if usual else scale,
        softcap=softcap or None,
        q_num_heads=q_heads if flat else None,
        kv_num_heads=kv_heads if flat else None,
        softmax_precision=ir.DataType.from_numpy(precision).value if wider else None,
    )


@rule(ops.select_index)
def _(b: Builder, x: ir.Value, *, axis: int, index: int) -> ir.Value:
    return b.op("Gather", x, b.const(index, "int64"), axis=axis)


@rule(ops.split, since=18)
def _(b: Builder, x: ir.Value, *, axis: int, sizes: tuple[int, ...]) -> Any:
    even = len(set(sizes)) == 1
    inputs = [x] if even else [x, b.ints(sizes)]
    return b.ops("Split", inputs, len(sizes), axis=axis, num_outputs=len(sizes) if even else None)


@rule(ops.split)
def _(b: Builder, x: ir.Value, *, axis: int, sizes: tuple[int, ...]) -> Any:
    return b.ops("Split", [x, b.ints(sizes)], len(sizes), axis=axis)
