"""Evaluate loops and conditions of a graph in Python, so that every node has concrete operands."""

from typing import Any

import numpy as np

from converter.ir import Node, dims, ops
from converter.ir.evaluation import (
    Bodies,
    Control,
    Counted,
    EvaluationRules,
)


def run_cond(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate one branch of a conditional.

    Arguments:
        node: the node.
        inputs: the arrays of its operands, the first of which is the index of the branch.
        run: evaluates a body on its inputs.
        rules: settings of the evaluation, which are not used.

    Returns:
        The results, and the largest number of iterations of any loop in the branch.
    """
    bodies = list(node.bodies.values())
    return run(bodies[int(np.clip(inputs[0], 0, len(bodies) - 1))], [])


def run_while(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate a while loop, and stop it after ``rules.max_iterations`` iterations.

    Arguments:
        node: the node.
        inputs: the arrays of the initial loop state.
        run: evaluates a body on its inputs.
        rules: settings of the evaluation.

    Returns:
        The final loop state, and the number of iterations.
    """
    iterations, state = 0, inputs
    while iterations < rules.max_iterations and bool(run(node.bodies["cond"], state)[0][0]):
        state, iterations = run(node.bodies["body"], state)[0], iterations + 1
    return state, iterations


def run_scan(node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
    """Evaluate a scan, one iteration after the other.

    Arguments:
        node: the node.
        inputs: the arrays of the initial loop state and of the scanned operands.
        run: evaluates a body on its inputs.
        rules: settings of the evaluation.

    Returns:
        The final loop state with the stacked results, and zero, since the number of iterations is
        known.
    """
    count, body = node.params["num_carry"], node.bodies["body"]
    length = dims.evaluate_dim(node.params["length"], rules.sizes)
    state, rows = inputs[:count], list[list[Any]]()
    for iteration in range(length)[:: -1 if node.params["reverse"] else 1]:
        results, _ = run(body, [*state, *(np.asarray(x)[iteration] for x in inputs[count:])])
        state = results[:count]
        rows.append(results[count:])
    rows = rows[::-1] if node.params["reverse"] else rows
    shapes = [(dims.substitute_sizes(v.shape, rules.sizes), v.dtype) for v in node.outputs[count:]]
    empty = [np.zeros(shape, dtype) for shape, dtype in shapes]
    stacked = [np.stack([np.asarray(x) for x in column]) for column in zip(*rows, strict=True)]
    return [*state, *(stacked if rows else empty)], 0


CONTROL: Control = {ops.scan: run_scan, ops.while_: run_while, ops.cond: run_cond}
"""For each operation with bodies, the function that evaluates its nodes."""
