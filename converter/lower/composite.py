"""Lowering rules for fused structures and for operations that the layout passes write."""

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from converter.decompositions.registered import keyword_defaults
from converter.ir import dims, ops
from converter.ir.dtypes import is_float
from converter.ir.formulas import ALIGNED, ResizeKind
from converter.lower.builder import Builder
from converter.lower.elementwise import Term
from converter.lower.lowerings import lowers, register_operators, unsupported
from converter.targets.schemas import SINCE, operator_name

for _op in (ops.celu, ops.elu, ops.hard_sigmoid):
    register_operators({_op: _op.operator}, **keyword_defaults(ops.ACTIVATIONS[_op].formula))


@lowers(ops.factor, ignores=("least", "most"))
def _(b: Builder, x: ir.Value) -> ir.Value:
    """Return the operand unchanged.

    A ``factor`` only marks a value whose magnitude is checked when the file is saved. It is lowered
    if a weight program stays in the graph, because its result is larger than its inputs.
    """
    return x


@lowers(ops.clip)
def _(b: Builder, x: ir.Value, *, low: float, high: float) -> ir.Value:
    return b.op("Clip", x, b.like(low), b.like(high))


@lowers(ops.swish, since=SINCE["Swish"])
def _(b: Builder, x: ir.Value, *, alpha: float = 1) -> ir.Value:
    """Lower ``x * sigmoid(alpha * x)`` to ``Swish``."""
    return b.op("Swish", x, alpha=None if alpha == 1 else alpha)


@lowers(ops.leaky_relu)
def _(b: Builder, x: ir.Value, *slopes: ir.Value, slope: float = 1) -> ir.Value:
    """Lower a leaky ReLU to ``PRelu`` if it has a slope per channel, else to ``LeakyRelu``."""
    return b.op("PRelu", x, *slopes) if slopes else b.op("LeakyRelu", x, alpha=slope)


@lowers(ops.layer_norm, ops.softmax, ops.log_softmax)
@lowers(ops.rms_norm, since=SINCE["RMSNormalization"])
def _(b: Builder, *xs: ir.Value, axis: int, epsilon: float | None = None) -> ir.Value:
    """Lower norms and softmax. The axis is written as a negative number, which counts from the
    end."""
    return b.op(operator_name(b.node.op), *xs, axis=axis - b.out.rank, epsilon=epsilon)


@lowers(ops.group_norm)
def _(b: Builder, x: ir.Value, *xs: ir.Value, groups: int, epsilon: float) -> ir.Value:
    """Lower a group norm, with one channel per group to ``InstanceNormalization``."""
    if groups == b.out.shape[1]:
        return b.op("InstanceNormalization", x, *xs, epsilon=epsilon)
    return b.op("GroupNormalization", x, *xs, epsilon=epsilon, num_groups=groups)


@lowers(ops.batch_norm)
def _(b: Builder, x: ir.Value, *xs: ir.Value, epsilon: float) -> ir.Value:
    """Lower a batch norm. ONNX's operand order is scale, bias, mean, variance."""
    scale, mean, variance, bias = xs
    return b.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon)


@lowers(ops.gelu, since=SINCE["Gelu"])
def _(b: Builder, x: ir.Value, *, approximate: bool) -> ir.Value:
    return b.op("Gelu", x, approximate="tanh" if approximate else None)


@lowers(ops.gelu)
def _(b: Builder, x: ir.Value, *, approximate: bool) -> ir.Value:
    """Lower GELU without its operator, in the form that the optimizers of runtimes fuse into one
    kernel."""
    term = Term(b, x)
    gate = _tanh_gate(term) if approximate else (term / math.sqrt(2)).apply("Erf")
    return (term * 0.5 * (gate + 1)).value


def _tanh_gate(x: Term) -> Term:
    """Return ``tanh(sqrt(2/pi) x (1 + 0.044715 x^2))``, the gate of the approximate GELU."""
    square = x * 0.044715 * x
    return (x * math.sqrt(2 / math.pi) * (square + 1)).apply("Tanh")


@lowers(ops.rotary_heads, since=SINCE["RotaryEmbedding"])
def _(b: Builder, *xs: ir.Value, heads: int, interleaved: bool) -> ir.Value:
    """Lower a rotary embedding. ``num_heads`` is needed only if the operand is 3-D."""
    is_flat, interleaved_flag = b.out.rank == 3, 1 if interleaved else None
    return b.op(
        "RotaryEmbedding", *xs, interleaved=interleaved_flag, num_heads=heads if is_flat else None
    )


@lowers(ops.attention, since=SINCE["Attention"])
def _(
    b: Builder,
    *xs: ir.Value,
    scale: float,
    softcap: float,
    q_heads: int,
    kv_heads: int,
    precision: Any,
    mask_replaces_scores: bool,
) -> ir.Value:
    """Lower attention to ``Attention``. Attributes that have ONNX's default value are omitted.

    The numbers of heads are needed only if the operands are 3-D. ``mask_replaces_scores`` does not
    change the operator.
    """
    is_flat = b.out.rank == 3
    width = b.operand().shape[-1]
    width = width // q_heads if is_flat else width
    is_default_scale = dims.is_static(width) and math.isclose(scale, width**-0.5, rel_tol=1e-6)
    has_softmax_precision = b.out.dtype != precision
    return b.op(
        "Attention",
        *xs,
        scale=None if is_default_scale else scale,
        softcap=softcap or None,
        q_num_heads=q_heads if is_flat else None,
        kv_num_heads=kv_heads if is_flat else None,
        softmax_precision=ir.DataType.from_numpy(precision).value
        if has_softmax_precision
        else None,
    )


@lowers(ops.select_index)
def _(b: Builder, x: ir.Value, *, axis: int, index: int) -> ir.Value:
    """Lower the selection of one entry along an axis, which is removed."""
    return b.op("Gather", x, b.const(index, "int64"), axis=axis)


@lowers(ops.split)
def _(b: Builder, x: ir.Value, *, axis: int, sizes: tuple[int, ...]) -> Any:
    """Lower a split. From opset 18 on, the number of equal parts replaces their sizes."""
    is_even, count = len(set(sizes)) == 1 and b.opset >= 18, len(sizes)
    inputs = [x] if is_even else [x, b.ints(sizes)]
    return b.ops("Split", inputs, count, axis=axis, num_outputs=count if is_even else None)


ACTIVATION_NAMES = {
    "logistic": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "hard_sigmoid": "HardSigmoid",
}
DEFAULT_ACTIVATIONS = {
    ops.lstm: ["Sigmoid", "Tanh", "Tanh"],
    ops.gru: ["Sigmoid", "Tanh"],
    ops.rnn: ["Tanh"],
}
"""The activations of recurrent operators if the attribute is left out."""
HARD_SIGMOID_DEFAULTS = keyword_defaults(ops.ACTIVATIONS[ops.hard_sigmoid].formula)
"""Parameters of JAX's hard sigmoid; ONNX's other activations here have none."""


@lowers(*DEFAULT_ACTIVATIONS)
def _(
    b: Builder, *xs: ir.Value, reverse: bool, activations: Sequence[str], reset_last: bool = False
) -> Any:
    """Lower a recurrent layer to ``LSTM``, ``GRU`` or ``RNN``.

    The operands are x, w, r, b and the initial states. In ONNX the lengths of the sequences come
    between b and the initial states; they are omitted. ``reset_last`` is ONNX's
    ``linear_before_reset``.
    """
    names = [ACTIVATION_NAMES[name] for name in activations]
    hard_sigmoid_count = names.count("HardSigmoid")
    return b.ops(
        b.node.op.operator,
        [*xs[:4], None, *xs[4:]],
        len(b.node.outputs),
        hidden_size=b.node.outputs[-1].shape[-1],
        direction="reverse" if reverse else None,
        activations=None if names == DEFAULT_ACTIVATIONS[b.node.op] else names,
        activation_alpha=[HARD_SIGMOID_DEFAULTS["alpha"]] * hard_sigmoid_count or None,
        activation_beta=[HARD_SIGMOID_DEFAULTS["beta"]] * hard_sigmoid_count or None,
        linear_before_reset=1 if reset_last else None,
    )


# JAX ignores samples outside of the image and normalizes the remaining weights. The cubic method of
# PyTorch repeats the pixels at the edge.
RESIZE_ATTRIBUTES: dict[ResizeKind, dict[str, Any]] = {
    ("nearest", False): {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    ("linear", False): {"mode": "linear"},
    ("linear", True): {"mode": "linear", "antialias": 1, "exclude_outside": 1},
    ALIGNED: {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ("cubic", True): {"mode": "cubic", "antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5},
    ("cubic-pytorch", False): {"mode": "cubic", "antialias": 1},
}
# This mode is exact if every size is multiplied by an integer, and it was the fastest one in
# measurements.
INTEGER_SCALE_ATTRIBUTES = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@lowers(ops.resize)
def _(b: Builder, x: ir.Value, *, axes: tuple[int, ...], sizes: Any, kinds: Any) -> ir.Value:
    """Lower a resize with the sizes of all axes.

    The attribute ``axes`` (opset 18), with sizes for only some axes, is not used. An optimizer that
    moves transposes through ``Resize`` would treat these sizes as the sizes of all axes.
    """
    del sizes
    before, after = b.operand().shape, b.out.shape
    is_integer_scale = all(dims.divide_exactly(after[i], before[i]) is not None for i in axes)
    repeated = INTEGER_SCALE_ATTRIBUTES if is_integer_scale and kinds[0][0] == "nearest" else {}
    return b.op("Resize", x, None, None, b.ints(after), **(RESIZE_ATTRIBUTES[kinds[0]] | repeated))


@lowers(ops.grid_sample)
def _(b: Builder, x: ir.Value, grid: ir.Value, *, padding: str) -> ir.Value:
    """Lower grid sampling; coordinates range from edge to edge. Opset 20 renamed the mode."""
    mode = "linear" if b.opset >= 20 else "bilinear"
    padding_mode = None if padding == "zeros" else padding
    return b.op("GridSample", x, grid, mode=mode, padding_mode=padding_mode, align_corners=0)


# -------------------------------------------------------------------------- pools and convolutions


@lowers(ops.max_pool, ops.max_pool_scatter, ops.avg_pool, ops.sum_pool)
def _(
    b: Builder,
    x: ir.Value,
    *source: ir.Value,
    size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    include_pad: bool = True,
) -> ir.Value:
    """Lower pooling, or the gradient of max pooling if there is a ``source``.

    Attributes that have ONNX's default value are omitted. A sum is lowered to the average times the
    window size.
    """
    pads = [low for low, _ in padding] + [high for _, high in padding]
    window = {
        "kernel_shape": size,
        "strides": strides,
        "pads": pads if any(pads) else None,
        "dilations": dilation if any(d != 1 for d in dilation) else None,
    }
    if b.node.op is ops.max_pool:
        return b.op("MaxPool", x, **window)
    if source:
        return _scatter_to_maxima(b, b.ops("MaxPool", [x], 2, **window)[1], *source)
    mean = b.op("AveragePool", x, **window, count_include_pad=int(include_pad))
    return mean if b.node.op is ops.avg_pool else b.op("Mul", mean, b.like(math.prod(size)))


def _scatter_to_maxima(b: Builder, positions: ir.Value, source: ir.Value) -> ir.Value:
    """Return, in the shape of the operand of ``MaxPool``, the sums of ``source`` at the positions
    of the maxima.

    ``positions`` are those that ``MaxPool`` returns: indices into its flattened operand, one for
    each window.
    """
    shape, window_shape = b.operand(0).shape, b.operand(1).shape
    flat_size, window_size = (dims.size_product(shape),), (dims.size_product(window_shape),)
    zeros = b.expand(b.like(0), (), flat_size)
    indices, values = (b.reshape(v, window_shape, window_size) for v in (positions, source))
    total = b.op("ScatterElements", zeros, indices, values, axis=0, reduction="add")
    return b.reshape(total, flat_size, shape)


@lowers(ops.conv, ops.conv_transpose)
def _(
    b: Builder,
    *xs: ir.Value,
    strides: Any,
    padding: Any = (),
    cuts: Any = (),
    dilation: Any,
    groups: int,
) -> ir.Value:
    """Lower a convolution or a transposed convolution.

    ``cuts`` are the numbers of elements that a transposed convolution removes at each end; negative
    numbers add ``output_padding``. Without a static kernel size, the operator reads the shape of
    its second operand.

    **Raises** `UnsupportedError` if the target has no operator for the dtype.
    """
    name = operator_name(b.node.op)
    if not (is_float(b.out.dtype) and b.has_operator(name, b.out.dtype)):
        reason = f"{b.shared.target.name} has no {name} for it, and the kernel's size is not known"
        raise unsupported(b.node, b.opset, reason)
    kernel, ends = b.operand(1).shape[2:], padding or [(low, max(high, 0)) for low, high in cuts]
    return b.op(
        name,
        *xs,
        kernel_shape=kernel if dims.all_static(kernel) else None,
        strides=strides,
        pads=[low for low, _ in ends] + [high for _, high in ends],
        output_padding=[max(-high, 0) for _, high in cuts] if cuts else None,
        dilations=dilation,
        group=groups,
    )
