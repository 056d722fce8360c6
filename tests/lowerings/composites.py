"""Programs of composites, with the operands that recognisers and layout rules give them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from converter.ir import Value, dims, ops
from converter.ir.formulas import ALIGNED
from converter.ir.op import Op
from tests.lowerings.elementwise import SUPPORTED, results
from tests.lowerings.operands import moderate, operand
from tests.lowerings.prove import Applied, LoweringCase, Result
from tests.rules.programs import Drawn, Expr, Shape

POSITIVE = [0.25, 0.5, 1.0, 2.0]
FEW = [0.5, -0.75, 1.25, -1.5, 0.25]


def _x(d: Drawn, shape: Shape, dtype: str = "float32") -> Expr:
    """Draw an operand of moderate numbers, for which operators only round otherwise than JAX."""
    return d.pick([d.input, d.input, d.param, d.constant])(shape, dtype, moderate(dtype))


def _weights(d: Drawn, shape: Shape, dtype: str = "float32", pool: Sequence[float] = FEW) -> Expr:
    return d.pick([d.input, d.param, d.constant])(shape, dtype, pool)


def _optional(d: Drawn, shape: Shape, dtype: str) -> list[Expr]:
    """Draw no or one optional operand."""
    return [_weights(d, shape, dtype)] if d.chance() else []


def _matmul(d: Drawn) -> Result:
    left, right, out = d.pick(PRODUCTS)
    dtype = d.pick(["float32", "float64", "float16", "int32", "int8"])
    x, y = (operand(d, shape, dtype, moderate(dtype)) for shape in (left, right))
    return Result(Applied(ops.matmul, [x, y], types=lambda a, b: [(out(a, b), a.dtype)]))


PRODUCTS: tuple[tuple[Shape, Shape, Callable[[Value, Value], Any]], ...] = (
    ((2, 3), (3, 4), lambda a, b: (2, 4)),
    ((2, 0), (0, 4), lambda a, b: (2, 4)),
    (("n", 3), (3, 4), lambda a, b: (a.shape[0], 4)),
    ((2, 2, 3), (3, 1), lambda a, b: (2, 2, 1)),
    (("n", 2, 3), (1, 3, 2), lambda a, b: (a.shape[0], 2, 2)),
)


def _normed(op: Op, has_bias: bool) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape, dtype = d.pick([(2, 3), ("n", 4), (2, 2, 4)]), d.pick(["float32", "float16"])
        axis = len(shape) - 1
        inner = shape[axis:]
        bias = _optional(d, inner, dtype) if has_bias else []
        params = {"axis": axis, "epsilon": 1e-5}
        return Result(Applied(op, [_x(d, shape, dtype), _weights(d, inner, dtype), *bias], params))

    return one


def _softmax(op: Op) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape, dtype = d.pick([(2, 3), ("n", 4), (3, "m"), (2, 3, 2)]), d.pick(SUPPORTED)
        axis = d.integer(0, len(shape) - 1)
        return Result(Applied(op, [_x(d, shape, dtype)], {"axis": axis}))

    return one


def _by_channel(op: Op) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape = d.pick([(2, 4, 3), ("n", 4, 2, 2)])
        channels = [_weights(d, (4,)) for _ in range(2)]
        if op is ops.group_norm:
            # For groups of several channels, the layout needs an opset that has the operator.
            return Result(Applied(op, [_x(d, shape), *channels], {"groups": 4, "epsilon": 1e-5}))
        scale, bias = channels
        mean, variance = _weights(d, (4,)), _weights(d, (4,), pool=POSITIVE)
        return Result(Applied(op, [_x(d, shape), scale, mean, variance, bias], {"epsilon": 1e-5}))

    return one


def _rotated(d: Drawn) -> Result:
    heads, width, is_3d = 2, 4, d.chance()
    x = _x(d, (1, 3, heads * width) if is_3d else (1, heads, 3, width))
    ids = [d.input((1, 3), "int64", [0, 1, 2, 4])] if d.chance() else []
    table: Shape = (5, width // 2) if ids else (1, 3, width // 2)
    tables = [_weights(d, table) for _ in range(2)]
    params = {"heads": heads, "interleaved": d.chance()}
    return Result(Applied(ops.rotary_heads, [x, *tables, *ids], params))


def _attended(d: Drawn) -> Result:
    is_3d, group = d.chance(), d.pick([1, 2])
    q_heads, width = 2 * group, 4
    kv_heads = 2
    shapes: list[Shape] = [(2, 3, q_heads * width), *((2, 5, kv_heads * width),) * 2]
    if not is_3d:
        shapes = [(2, q_heads, 3, width), *((2, kv_heads, 5, width),) * 2]
    dtype = d.pick(SUPPORTED)
    mask = [d.input((1, 1, 3, 5), dtype, [0.0, -1.0, 0.5])] if d.chance() else []
    params = {
        "scale": d.pick([width**-0.5, 1.0]),
        "softcap": d.pick([0.0, 0.0, 5.0]),
        "q_heads": q_heads,
        "kv_heads": kv_heads,
        "precision": np.dtype("float32"),
        "mask_replaces_scores": False,
    }
    return Result(
        Applied(ops.attention, [*(d.input(s, dtype, FEW) for s in shapes), *mask], params)
    )


RECURRENT = {
    ops.lstm: (4, 2, ["logistic", "tanh", "tanh"]),
    ops.gru: (3, 1, ["logistic", "tanh"]),
    ops.rnn: (1, 1, ["tanh"]),
}


def _recurrent(op: Op) -> Callable[[Drawn], Result]:
    gates, states, activations = RECURRENT[op]

    def one(d: Drawn) -> Result:
        length, batch, width, size = d.pick([3, "n"]), d.pick([2, "m"]), 2, 3
        initial = [_x(d, (1, batch, size)) for _ in range(states)] if d.chance() else []
        xs = [
            d.input((length, batch, width), "float32", FEW),
            _weights(d, (1, gates * size, width)),
            _weights(d, (1, gates * size, size)),
            _weights(d, (1, 2 * gates * size)),
        ]
        chosen = (
            activations
            if d.chance()
            else [d.pick([*activations, "relu", "hard_sigmoid"]) for _ in activations]
        )
        params: dict[str, Any] = {"reverse": d.chance(), "activations": chosen}
        if op is ops.gru:
            params["reset_last"] = d.chance()

        def types(x: Value, *_: Value) -> list[tuple[Any, Any]]:
            sequence, state = (x.shape[0], 1, x.shape[1], size), (1, x.shape[1], size)
            return [(sequence, x.dtype), *((state, x.dtype),) * states]

        return Result(Applied(op, [*xs, *initial], params, types))

    return one


KINDS = (("nearest", False), ("linear", False), ALIGNED)
SINCE_18 = (("linear", True), ("cubic", True))


def _resized(d: Drawn) -> Result:
    """Draw a resize of images [batch, channels, rows, columns], the layout that rules produce."""
    kind = d.pick(KINDS)
    rows, columns = d.pick([(6, 8), (3, 4), (5, 2), (6, 5)])
    batch = d.pick([1, 2, "n"])
    x = d.input((batch, 2, 3, 4), "float32", FEW)
    params = {"axes": (2, 3), "sizes": (rows, columns), "kinds": (kind,)}
    return Result(
        Applied(ops.resize, [x], params, lambda v: [((*v.shape[:2], rows, columns), v.dtype)])
    )


def _sampled(d: Drawn) -> Result:
    x = d.input((2, 2, 3, 4), "float32", FEW)
    grid = d.input((2, 3, 2, 2), "float32", [-1.2, -0.7, -0.1, 0.0, 0.35, 0.8, 1.1])
    params = {"padding": d.pick(["zeros", "border"])}
    return Result(
        Applied(ops.grid_sample, [x, grid], params, lambda v, _: [((2, 2, 3, 2), v.dtype)])
    )


def _pool_params(d: Drawn) -> dict[str, Any]:
    return {
        "size": d.pick([(2, 2), (3, 1), (1, 2)]),
        "strides": d.pick([(1, 1), (2, 1)]),
        "padding": d.pick([((0, 0), (0, 0)), ((0, 1), (0, 0)), ((1, 0), (0, 0))]),
        "dilation": (1, 1),
    }


def _windows(shape: Any, p: dict[str, Any]) -> Any:
    """Return the output shape of windows with the parameters `p` over an input of this shape."""
    rows = zip(shape[2:], p["size"], p["strides"], p["padding"], p["dilation"], strict=True)
    counts = [
        (size + sum(pads) - (window - 1) * dilation - 1) // stride + 1
        for size, window, stride, pads, dilation in rows
    ]
    return (*shape[:2], *(dims.as_dim(c) for c in counts))


def _pooled(op: Op) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        p = _pool_params(d)
        if p["padding"][0] != (0, 0) and p["size"][0] == 1:
            p["padding"] = ((0, 0), (0, 0))
        x = d.input((d.pick([1, "n"]), 2, 5, 4), d.pick(SUPPORTED), FEW)
        if op is ops.max_pool and d.chance():
            p["dilation"] = (2, 1)
        if op is ops.avg_pool:
            p["include_pad"] = d.chance()
        types = lambda v, *_: [(_windows(v.shape, p), v.dtype)]  # noqa: E731
        return Result(Applied(op, [x], p, types))

    return one


def _pool_gradient(d: Drawn) -> Result:
    p = {"size": (2, 2), "strides": d.pick([(1, 1), (2, 2)]), "dilation": (1, 1)}
    p |= {"padding": d.pick([((0, 0), (0, 0)), ((0, 1), (1, 0))])}
    batch = d.pick([1, "n"])
    # All elements differ, because any of several equal maxima may get the gradient.
    numbers = [float(n) for n in range(40)]
    x = d.input((batch, 1, 4, 4), "float32", numbers)
    index = len(d.inputs) - 1
    rng = np.random.default_rng(d.integer(0, 99))
    d.inputs[index] = rng.permutation(d.inputs[index].size).reshape(d.inputs[index].shape)
    d.inputs[index] = d.inputs[index].astype(np.float32)
    source = d.input((*_windows((batch, 1, 4, 4), p),), "float32", FEW)
    return Result(Applied(ops.max_pool_scatter, [x, source], p))


def _convolved(d: Drawn) -> Result:
    groups = d.pick([1, 2])
    p: dict[str, Any] = {
        "strides": d.pick([(1, 1), (2, 1)]),
        "padding": d.pick([((0, 0), (0, 0)), ((1, 1), (0, 1))]),
        "dilation": d.pick([(1, 1), (2, 1)]),
        "groups": groups,
    }
    x = d.input((d.pick([1, "n"]), 4, 5, 4), "float32", FEW)
    w = _weights(d, (2, 4 // groups, 2, 2))

    def types(v: Value, *_: Value) -> list[tuple[Any, Any]]:
        shape = _windows(v.shape, {**p, "size": (2, 2)})
        return [((shape[0], 2, *shape[2:]), v.dtype)]

    return Result(Applied(ops.conv, [x, w, *_optional(d, (2,), "float32")], p, types))


def _conv_of_symbolic_kernel(d: Drawn) -> Result:
    """Draw a convolution with a kernel of symbolic size, which ONNX reads from the kernel."""
    p: dict[str, Any] = {
        "strides": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "dilation": (1, 1),
        "groups": 1,
    }
    x, w = d.input((1, 2, 5, 4), "float32", FEW), d.input((2, 2, "n", 2), "float32", FEW)

    def types(v: Value, kernel: Value) -> list[tuple[Any, Any]]:
        shape = _windows(v.shape, {**p, "size": kernel.shape[2:]})
        return [((1, 2, *shape[2:]), v.dtype)]

    return Result(Applied(ops.conv, [x, w], p, types))


def _conv_of_integers(d: Drawn) -> Result:
    p: dict[str, Any] = {
        "strides": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "dilation": (1, 1),
        "groups": 1,
    }
    x, w = d.input((1, 2, 5, 4), "int32"), d.input((2, 2, 2, 2), "int32")
    return Result(Applied(ops.conv, [x, w], p, lambda v, _: [((1, 2, 4, 3), v.dtype)]))


def _conv_transposed(d: Drawn) -> Result:
    """Draw a transposed convolution whose ends are cut; a negative cut adds elements."""
    groups, strides = d.pick([1, 2]), d.pick([(1, 1), (2, 2)])
    cuts = d.pick([((0, 0), (0, 0)), ((1, 0), (0, 1))])
    if strides == (2, 2) and d.chance():
        cuts = ((0, -1), (1, 0))
    p: dict[str, Any] = {"strides": strides, "cuts": cuts, "dilation": (1, 1), "groups": groups}
    x = d.input((d.pick([1, "n"]), 4, 3, 4), "float32", FEW)
    w = _weights(d, (4, 2, 2, 3))

    def types(v: Value, *_: Value) -> list[tuple[Any, Any]]:
        rows = zip(v.shape[2:], (2, 3), strides, cuts, strict=True)
        sizes = [(size - 1) * s + k - low - high for size, k, s, (low, high) in rows]
        return [((v.shape[0], 2 * groups, *sizes), v.dtype)]

    bias = _optional(d, (2 * groups,), "float32")
    return Result(Applied(ops.conv_transpose, [x, w, *bias], p, types))


def _rounded_case(
    draw: Callable[[Drawn], Result], units: float = 32, refusal: str = ""
) -> LoweringCase:
    return LoweringCase(results(draw), units, of_largest=True, refusal=refusal)


CASES: dict[Op, Sequence[LoweringCase]] = {
    ops.matmul: [_rounded_case(_matmul)],
    ops.layer_norm: [_rounded_case(_normed(ops.layer_norm, True))],
    ops.rms_norm: [_rounded_case(_normed(ops.rms_norm, False))],
    ops.softmax: [_rounded_case(_softmax(ops.softmax))],
    ops.log_softmax: [_rounded_case(_softmax(ops.log_softmax))],
    ops.group_norm: [_rounded_case(_by_channel(ops.group_norm))],
    ops.batch_norm: [_rounded_case(_by_channel(ops.batch_norm))],
    ops.rotary_heads: [_rounded_case(_rotated)],
    ops.attention: [_rounded_case(_attended)],
    **{op: [_rounded_case(_recurrent(op))] for op in RECURRENT},
    ops.resize: [_rounded_case(_resized)],
    ops.grid_sample: [_rounded_case(_sampled)],
    ops.max_pool: [_rounded_case(_pooled(ops.max_pool), 0)],
    ops.avg_pool: [_rounded_case(_pooled(ops.avg_pool))],
    ops.sum_pool: [_rounded_case(_pooled(ops.sum_pool))],
    ops.max_pool_scatter: [_rounded_case(_pool_gradient)],
    ops.conv: [
        _rounded_case(_convolved),
        _rounded_case(_conv_of_symbolic_kernel),
        _rounded_case(_conv_of_integers, refusal="onnxruntime "),
    ],
    ops.conv_transpose: [_rounded_case(_conv_transposed)],
}
