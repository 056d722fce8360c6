"""Evaluate a graph node by node, with the loops and conditions of Python.

Every node is one operation of IEEE 754. XLA compiles several nodes together instead: it replaces
quotients by products with reciprocals and `x / x` by 1. It treats subnormal numbers of float32 as
zero.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from converter.errors import ConverterError
from converter.frontend.array_forms import is_key, to_graph_array
from converter.frontend.diagnostics import DIMENSION_ERRORS
from converter.frontend.trace import trace
from converter.ir import Graph, Node, Value, dims, ops
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
    use_precision_of,
)
from converter.ir.op import Rounding
from converter.ir.rewrite import drop_dead
from converter.verify.wider_nodes import (
    cast,
    has_subnormal,
    is_half,
    is_widening,
    run_in_float32,
    run_step,
)

MAX_STEPS = 20_000
"""Limit of the nodes of one evaluation. A node takes 10 µs in numpy and 200 µs in JAX."""


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


def _round_bodies(
    evaluate_node: Callable[[Node, list[Any], Bodies, EvaluationRules], Counted],
) -> Callable[[Node, list[Any], Bodies, EvaluationRules], Counted]:
    """Return a function that evaluates nodes with bodies and rounds the results of each body to
    their dtypes, as the states of a loop in a file are."""

    def run_node_with_bodies(
        node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules
    ) -> Counted:
        def run_rounded(body: Graph, args: Sequence[Any], step: Any = None) -> Counted:
            results, iterations = run(body, args, step)
            return cast(results, body.outputs), iterations

        return evaluate_node(node, cast(inputs, node.inputs), run_rounded, rules)

    return run_node_with_bodies


ROUNDING_CONTROL: Control = {op: _round_bodies(run) for op, run in CONTROL.items()}
"""The functions of ``CONTROL``, with the results of bodies rounded."""


class LegalResults(NamedTuple):
    """Results of a function in several evaluations, all of which are legal.

    Arguments:
        evaluations: the outputs of each evaluation. The first ones compute each node as IEEE 754
            defines it, with both signs of the NaN that operations return, and the factors of
            products in different orders. In the last ones, XLA compiles the graph as a whole: with
            constant arrays as constants, and as operands, as JAX passes weights.
        in_float32: the outputs of evaluations in which the results of float16 and bfloat16 nodes
            are kept in float32. The first one rounds them before a conversion to a wider dtype. If
            the function converts float16 to float32 or float64, there is a second one that does
            not. Empty without such nodes.
        leaves_range: for each output, whether it depends on a node whose result is infinite, NaN or
            subnormal although none of its operands is.
        leaves_half_range: for each output, whether it depends on such a result in float16 or
            bfloat16.
        is_finite: whether no operand and no result of a node is infinite or NaN.
    """

    evaluations: list[list[np.ndarray]]
    in_float32: list[list[np.ndarray]]
    leaves_range: list[bool]
    leaves_half_range: list[bool]
    is_finite: bool


class LegalEvaluator:
    """Evaluation of a function node by node and compiled as a whole.

    The function is traced again, so that the results do not depend on the graph of an export. It is
    traced and compiled once for all inputs of the same shapes and dtypes.

    Arguments:
        fn: the function.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._traced: dict[tuple[Any, ...], tuple[Graph, list[Callable[..., Any]]]] = {}

    @np.errstate(all="ignore")
    def evaluate(self, inputs: Sequence[Any]) -> LegalResults | None:
        """Return the results for some inputs, which are arrays or PRNG keys.

        None if JAX cannot trace or evaluate the function, or if it takes more than ``MAX_STEPS``
        nodes.
        """
        arrays = [np.asarray(to_graph_array(x)) for x in inputs]
        try:
            graph, compiled = self._trace(inputs)
            stepped = _Steps(nan_sign=1.0)
            evaluations = [stepped.run(graph, arrays)]
            if stepped.has_choice:
                others = _Steps(nan_sign=-1.0, order=1), _Steps(nan_sign=-1.0, order=-1)
                evaluations += [steps.run(graph, arrays) for steps in others]
            with use_precision_of(all_nodes(graph)):
                evaluations += [[np.asarray(y) for y in run(arrays)] for run in compiled]
        except (*DIMENSION_ERRORS, ConverterError, _StepLimitExceeded):
            return None
        sources = [_find_sources(graph, output) for output in graph.outputs]
        return LegalResults(
            evaluations,
            _evaluate_in_float32(graph, arrays),
            [not stepped.widths.keys().isdisjoint(nodes) for nodes in sources],
            [any(2 in stepped.widths.get(node, ()) for node in nodes) for nodes in sources],
            stepped.is_finite,
        )

    def _trace(self, inputs: Sequence[Any]) -> tuple[Graph, list[Callable[..., Any]]]:
        """Return the graph of the function, and its compiled evaluations, for the shapes of some
        inputs."""
        examples = [x if is_key(x) else np.asarray(x) for x in inputs]
        types = tuple((x.shape, x.dtype) for x in examples)
        if types not in self._traced:
            with warnings.catch_warnings():
                # The conversion has given the warnings about the function already.
                warnings.simplefilter("ignore")
                graph = trace(self._fn, examples)
            drop_dead(graph)
            compiled: list[Callable[..., Any]] = [jax.jit(partial(evaluate, graph))]
            open_graph, constants = _constants_as_inputs(graph)
            if constants:
                run = jax.jit(partial(evaluate, open_graph))
                compiled.append(lambda arrays: run([*arrays, *constants]))
            self._traced[types] = graph, compiled
        return self._traced[types]


def _evaluate_in_float32(graph: Graph, arrays: Sequence[Any]) -> list[list[np.ndarray]]:
    """Return the outputs of a graph whose nodes of float16 and bfloat16 are computed in float32.

    Their results are rounded if the function converts them, in each iteration of a loop, and as
    outputs. If float16 is converted to a wider dtype, there is a second evaluation that does not
    round before these conversions. An evaluation is left out if JAX cannot compute it.
    """
    nodes = list(all_nodes(graph))
    if not any(is_half(v.dtype) for node in nodes for v in node.outputs):
        return []
    choices = (True, False) if any(map(is_widening, nodes)) else (True,)
    evaluations = []
    for rounds in choices:
        runner = partial(run_in_float32, rounds_widened=rounds)
        steps = _Steps(nan_sign=1.0, run_node=runner, rounds_bodies=True)
        with suppress(*DIMENSION_ERRORS, ConverterError, _StepLimitExceeded):
            evaluations.append(steps.run(graph, arrays))
    return evaluations


def _constants_as_inputs(graph: Graph) -> tuple[Graph, list[Any]]:
    """Return a graph with further inputs in place of its constants, and their arrays.

    XLA simplifies products, quotients and indices with constants in other ways. Scalars of floats
    stay constants.
    """
    copy, inputs, arrays = graph.clone(), dict[int, Value](), list[Any]()

    def as_input(value: Value) -> Value:
        if value.const is None or not (value.rank or value.dtype.kind in "iu"):
            return value
        if id(value) not in inputs:
            inputs[id(value)] = Value(value.shape, value.dtype, kind="input")
            arrays.append(value.const)
        return inputs[id(value)]

    copy.replace_operands(as_input)
    return replace(copy, inputs=[*copy.inputs, *inputs.values()]), arrays


@dataclass
class _Steps:
    """Evaluation of a graph node by node.

    Arguments:
        nan_sign: the sign of each NaN that an operation returns. IEEE 754 does not define it.
        order: the order in which the factors of a product are multiplied: 1 if the smallest one is
            first, -1 if the largest one is, 0 for their order in the array. Cumulative products are
            computed by doubling if it is 1, and otherwise by ``run_node``.
        run_node: evaluates a node on the arrays of its operands.
        rounds_bodies: whether the results of bodies are rounded to their dtypes.
        count: the number of nodes that were evaluated.
        has_choice: whether an operation returned NaN or multiplied factors.
        is_finite: whether all operands and results are finite.
        widths: the nodes that leave the range of their dtype, by their ids, with the number of
            bytes of these dtypes.
    """

    nan_sign: float
    order: int = 0
    run_node: Callable[[Node, Sequence[Any], Sizes], list[Any]] = run_step
    rounds_bodies: bool = False
    count: int = 0
    has_choice: bool = False
    is_finite: bool = True
    widths: dict[int, set[int]] = field(default_factory=dict)

    def run(self, graph: Graph, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs of a graph.

        Raises `_StepLimitExceeded` if it takes more than ``MAX_STEPS`` nodes.
        """
        control = ROUNDING_CONTROL if self.rounds_bodies else CONTROL
        outputs = evaluate_bounded(graph, arrays, {}, self._apply, MAX_STEPS, control)[0]
        return cast(outputs, graph.outputs)

    def _apply(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        self.count += 1
        if self.count > MAX_STEPS:
            raise _StepLimitExceeded
        results = [self._set_nan_sign(node, y) for y in self._run_node(node, args, sizes)]
        self.is_finite = self.is_finite and all(map(_is_finite, (*args, *results)))
        if not any(map(is_extreme, args)):
            for y in filter(is_extreme, results):
                self.widths.setdefault(id(node), set()).add(np.asarray(y).dtype.itemsize)
        return results

    def _run_node(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the results of a node, with the order of factors of this evaluation."""
        if node.op is ops.reduce_prod:
            self.has_choice = True
            return [_multiply_in_order(args[0], node.params["axes"], self.order)]
        if node.op is ops.cumprod and is_float(node.out.dtype):
            self.has_choice = True
            if self.order > 0:
                axis, reverse = node.params["axis"], node.params["reverse"]
                return [_cumulate_by_doubling(args[0], axis, reverse)]
        return self.run_node(node, args, sizes)

    def _set_nan_sign(self, node: Node, result: Any) -> Any:
        """Return the result of a node with the sign of this evaluation for NaN, if the node
        rounds."""
        array = np.asarray(result)
        if node.op.rounding is Rounding.NONE or not is_float(array.dtype):
            return result
        is_nan = np.isnan(array)
        if not is_nan.any():
            return result
        self.has_choice = True
        return np.where(is_nan, np.copysign(array, array.dtype.type(self.nan_sign)), array)


def _multiply_in_order(factors: Any, axes: Sequence[int], order: int) -> np.ndarray:
    """Return the product along some axes, multiplied one factor after the other.

    The smallest magnitudes come first if ``order`` is 1, and the largest ones if it is -1. The
    factors are in the order of the array if it is 0.
    """
    array = np.moveaxis(np.asarray(factors), axes, range(len(axes)))
    rows = array.reshape(-1, *array.shape[len(axes) :])
    if order:
        rows = np.take_along_axis(rows, np.argsort(abs(rows), 0)[::order], 0)
    product = np.ones(rows.shape[1:], array.dtype)
    for row in rows:
        product = product * row
    return np.asarray(product, array.dtype)


def _cumulate_by_doubling(factors: Any, axis: int, reverse: bool) -> np.ndarray:
    """Return the cumulative products along an axis, as a parallel scan computes them.

    Step i multiplies each product of 2**i neighbours with the product of the 2**i neighbours before
    them (Hillis and Steele, *Data parallel algorithms*, 1986).
    """
    products = np.moveaxis(np.asarray(factors), axis, 0)
    products = products[::-1] if reverse else products
    distance = 1
    while distance < len(products):
        doubled = products[distance:] * products[:-distance]
        products = np.concatenate([products[:distance], doubled])
        distance *= 2
    return np.moveaxis(products[::-1] if reverse else products, 0, axis)


def _find_sources(graph: Graph, output: Value) -> set[int]:
    """Return the ids of the nodes that an output depends on, also of those in bodies."""
    found, pending = set[int](), [output]
    while pending:
        node = pending.pop().node
        if node is not None and id(node) not in found:
            found.add(id(node))
            found.update(id(inner) for body in node.bodies.values() for inner in body.walk())
            pending += node.inputs
    return found


def is_extreme(array: Any) -> bool:
    """Return True if a float of the array is infinite, NaN or subnormal."""
    return not _is_finite(array) or has_subnormal(array)


def _is_finite(array: Any) -> bool:
    """Return True if no float of the array is infinite or NaN."""
    array = np.asarray(array)
    return not is_float(array.dtype) or bool(np.isfinite(array).all())
