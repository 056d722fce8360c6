"""Evaluate a graph node by node in numpy, with the loops and conditions of Python.

Every node is one operation of IEEE 754. XLA compiles several nodes together instead: it replaces
quotients by products with reciprocals and `x / x` by 1, and flushes subnormal numbers to zero.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from converter.errors import ConverterError
from converter.frontend.array_forms import is_key, to_graph_array
from converter.frontend.diagnostics import DIMENSION_ERRORS
from converter.frontend.trace import trace
from converter.ir import Node, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import (
    Bodies,
    Control,
    Counted,
    EvaluationRules,
    Sizes,
    all_nodes,
    evaluate,
    evaluate_bounded,
    run_eagerly,
    use_precision_of,
)
from converter.ir.rewrite import drop_dead

MAX_STEPS = 20_000
"""Limit of the nodes of one evaluation, in which a node takes about 10 µs."""


class _StepLimitExceeded(Exception):
    """Signal to stop an evaluation that takes more than ``MAX_STEPS`` steps."""


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


class TwoResults(NamedTuple):
    """Results of a function as IEEE 754 defines them node by node, and as XLA computes them.

    Arguments:
        stepped: the outputs, computed node by node.
        compiled: the outputs if XLA compiles the graph as a whole.
        leaves_range: whether the result of a node is infinite, NaN or subnormal although none of
            its operands is.
        leaves_half_range: whether that is so for a result in float16 or bfloat16.
        is_finite: whether no operand and no result of a node is infinite or NaN.
    """

    stepped: list[np.ndarray]
    compiled: list[np.ndarray]
    leaves_range: bool
    leaves_half_range: bool
    is_finite: bool


def evaluate_twice(fn: Callable[..., Any], inputs: Sequence[Any]) -> TwoResults | None:
    """Return the results of a function, node by node and compiled as a whole.

    The function is traced again, so that the results do not depend on the graph of an export.

    Arguments:
        fn: the function.
        inputs: its arguments, as arrays or PRNG keys.

    Returns:
        The results. None if JAX cannot trace the function, or if it takes more than ``MAX_STEPS``
        nodes.
    """
    try:
        with warnings.catch_warnings():
            # The conversion has given the warnings about the function already.
            warnings.simplefilter("ignore")
            graph = trace(fn, [x if is_key(x) else np.asarray(x) for x in inputs])
    except (*DIMENSION_ERRORS, ConverterError):
        return None
    drop_dead(graph)
    arrays = [np.asarray(to_graph_array(x)) for x in inputs]
    steps, widths_left, is_finite = 0, set[int](), True

    def apply(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        nonlocal steps, is_finite
        steps += 1
        if steps > MAX_STEPS:
            raise _StepLimitExceeded
        results = run_eagerly(node, args, sizes)
        is_finite = is_finite and all(map(_is_finite, (*args, *results)))
        if not any(map(is_extreme, args)):
            widths_left.update(np.asarray(y).dtype.itemsize for y in results if is_extreme(y))
        return results

    try:
        with np.errstate(all="ignore"):
            stepped, _ = evaluate_bounded(graph, arrays, {}, apply, MAX_STEPS, CONTROL)
    except _StepLimitExceeded:
        return None
    with use_precision_of(all_nodes(graph)):
        compiled = jax.jit(lambda xs: evaluate(graph, xs))(arrays)
        outputs = [[np.asarray(y) for y in ys] for ys in (stepped, compiled)]
    return TwoResults(outputs[0], outputs[1], bool(widths_left), 2 in widths_left, is_finite)


def is_extreme(array: Any) -> bool:
    """Return True if a float of the array is infinite, NaN or subnormal."""
    array = np.asarray(array)
    if not is_float(array.dtype):
        return False
    smallest = float(jnp.finfo(array.dtype).smallest_normal)
    magnitude = np.abs(array.astype(np.float64))
    return bool((~np.isfinite(magnitude) | ((magnitude < smallest) & (magnitude > 0))).any())


def _is_finite(array: Any) -> bool:
    """Return True if no float of the array is infinite or NaN."""
    array = np.asarray(array)
    return not is_float(array.dtype) or bool(np.isfinite(array).all())
