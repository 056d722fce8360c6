"""The logarithm of a sum of exponentials, of few numbers, which is one node then.

    log(sum(exp(x - m))) + m = log_sum_exp(x)        m = max(x), or 0 where that is not finite

Of many numbers ONNX Runtime computes exponentials faster by themselves than in this operator.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from converter.fuse.match import Uses, proved
from converter.ir import Node, Value, dims, ops
from converter.ir.origins import source_behind
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

FEW = 512
"""Numbers of which the operator is faster."""


@dataclass(frozen=True)
class ExponentialSum:
    x: Value
    axes: tuple[int, ...]


def prove_log_sum_exp(node: Node, uses: Uses) -> ExponentialSum | None:
    return next(_proofs(node, uses), None)


def _proofs(node: Node, uses: Uses) -> Iterator[ExponentialSum]:
    for logarithm, added in (node.inputs, node.inputs[::-1]):
        shifted, axes = _exponents(logarithm, uses)
        if shifted is None or not dims.same_shape(logarithm.shape, added.shape):
            continue
        x, taken = shifted.inputs
        kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
        aligned = _few(x, uses) and x.shape == shifted.out.shape and taken.shape == kept
        shift = _same_in_order(taken)
        if aligned and shift is _same_in_order(added) and _is_finite_top(shift, x, axes):
            yield ExponentialSum(x, axes)


def _few(x: Value, uses: Uses) -> bool:
    small = dims.all_static(x.shape) and prod(x.shape) <= FEW
    return small and x.dtype == np.float32 and uses.takes("ReduceLogSumExp", x.dtype)


def _same_in_order(value: Value) -> Value:
    """Behind reshapes, which keep the order of elements."""
    return source_behind(value, (ops.reshape,))


def _exponents(value: Value, uses: Uses) -> tuple[Node | None, tuple[int, ...]]:
    """The difference of whose exponentials, which nobody else reads, a value is the logarithm of
    the sum; and the axes.
    """
    logarithm = value.made_by(ops.log)
    if logarithm is None:
        return None, ()
    total = source_behind(logarithm.inputs[0], (ops.reshape, ops.abs)).made_by(ops.reduce_sum)
    powers = None if total is None else total.inputs[0].made_by(ops.exp)
    if total is None or powers is None or not uses.single_use(powers.out):
        return None, ()
    return powers.inputs[0].made_by(ops.sub), tuple(total.params["axes"])


def _is_finite_top(value: Value, x: Value, axes: tuple[int, ...]) -> bool:
    """Whether it is the largest number, or zero where that is not finite."""
    choice = value.made_by(ops.select_n)
    if choice is None or len(choice.inputs) != 3 or scalar(choice.inputs[1]) != 0:
        return False
    asked = _same_in_order(choice.inputs[0]).made_by(ops.is_finite)
    top = _same_in_order(choice.inputs[2])
    highest = top.made_by(ops.reduce_max)
    if asked is None or highest is None or _same_in_order(asked.inputs[0]) is not top:
        return False
    return highest.inputs[0] is x and tuple(highest.params["axes"]) == axes


def _written(node: Node, found: ExponentialSum, editor: Editor) -> Value:
    shape = tuple(size for i, size in enumerate(found.x.shape) if i not in found.axes)
    total = editor.add(ops.log_sum_exp, [found.x], shape, found.x.dtype, {"axes": found.axes})
    return editor.reshape(total, node.out.shape)


LOG_SUM_EXP = proved("LogSumExp", (ops.add,), prove_log_sum_exp, _written)
