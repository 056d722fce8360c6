"""Evaluate loops and conditionals of graphs step by step in Python, so that nothing is compiled."""

from typing import Any

import numpy as np

from converter.ir import Node, dims, ops
from converter.ir.evaluation import CONTROL_EVALUATIONS, Bodies, Control, Counted, EvaluationRules


def _evaluate_scan(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate a scan step by step."""
    count, reverse = node.params["num_carry"], node.params["reverse"]
    length = dims.evaluate_dim(node.params["length"], rules.sizes)
    carried, rows = inputs[:count], list[list[Any]]()
    for index in reversed(range(length)) if reverse else range(length):
        results, _ = run(node.bodies["body"], [*carried, *(x[index] for x in inputs[count:])])
        carried, row = results[:count], results[count:]
        rows.append(row)
    stacked = zip(*(rows[::-1] if reverse else rows), strict=True)
    if rows:
        return [*carried, *(np.stack(column) for column in stacked)], 0
    empty = node.outputs[count:]
    shapes = [dims.substitute_sizes(v.shape, rules.sizes) for v in empty]
    return [*carried, *(np.zeros(s, v.dtype) for s, v in zip(shapes, empty, strict=True))], 0


def _evaluate_while(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate a while loop turn by turn, but at most ``rules.max_iterations`` turns."""
    state = inputs
    for _ in range(rules.max_iterations):
        if not run(node.bodies["cond"], state)[0][0]:
            break
        state = run(node.bodies["body"], state)[0]
    return state, 0


def _evaluate_cond(node: Node, inputs: list[Any], run: Bodies, _: EvaluationRules) -> Counted:
    """Evaluate the branch of a conditional that the first input selects."""
    branches = [*node.bodies.values()]
    return run(branches[min(max(int(inputs[0]), 0), len(branches) - 1)], [])


CONTROL: Control = {
    **CONTROL_EVALUATIONS,
    ops.scan: _evaluate_scan,
    ops.while_: _evaluate_while,
    ops.cond: _evaluate_cond,
}
