"""How far rounding alone can move a result: the graph evaluated with every step a little off.

A runtime may round differently from JAX at every step, and what that does to an element depends on
the element: a sum that cancels moves much, a large product next to it hardly. So the graph is
evaluated several times, each step moved at random by up to two units in the last place, and an
element may be as wrong as these evaluations scatter (stochastic arithmetic; Vignes, 2004,
doi:10.1023/B:NUMA.0000049483.75679.ce). Subnormal results, which XLA takes for zero and other
runtimes do not, are zero in some of the evaluations. What is moved is the result of a step; where a
step has many roundings inside, its operands too, which is how far they can carry (backward error),
and sums are added up in some order.
Steps that only choose numbers are left exact, and so is arithmetic on numbers of few digits.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import count
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize
from converter.decompose.expansion import decompose
from converter.frontend.array_forms import OfHeld
from converter.ir import Graph, Node, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import (
    ENDLESS,
    Sizes,
    all_nodes,
    evaluate_bounded,
    precision,
    run_node,
    run_uncompiled,
)
from converter.ir.op import Rounding, Vectors
from converter.ir.rewrite import drop_dead, sweep
from converter.jax_versions import enable_x64
from converter.pipeline.settings import PassSettings
from converter.pipeline.steps import resample, spelled_out
from converter.verify.samples import draw_inputs

MAX_UNITS = 2
"""By how many units in the last place a step is moved at most."""

MIN_DOT_TERMS, MAX_DOT_TERMS = 1024, 1 << 22
"""From so many terms in each of its sums on, and up to so many in all, a product of matrices is
added up one term after the other besides: shorter sums lose less than their roundings scatter."""

ITERATION_FACTOR, EXTRA_ITERATIONS = 4, 256
"""How many times as often as without errors a loop may turn with them, and how often it may in any
case: of errors that are drawn, a loop that waits for something exact may never see an end."""

POOL_SIZE = 1 << 16
"""So many random numbers serve all steps of an evaluation, each from another place on."""


def has_resampling(graph: Graph) -> bool:
    """Whether operators compute places between pixels."""
    return any(map(_computes_sampling_positions, graph.walk()))


def _computes_sampling_positions(node: Node) -> bool:
    linear = node.op is ops.resize and node.params["kinds"][0][0] != "nearest"
    return linear or node.op is ops.grid_sample


class Exact(NamedTuple):
    """Outputs of a graph with no errors, and how often its loops may turn with them; ``sampled``
    are those with places between pixels computed as a runtime does, if these may differ."""

    outputs: list[np.ndarray]
    max_iterations: int
    resampled_outputs: list[np.ndarray] | None


class Noise:
    """Evaluations of a graph with every step a little off, for as many inputs as there are.

    Of ``places`` between pixels the file's own operators may be a rounding off.
    """

    def __init__(self, retrace: Callable[[], Graph], varies_positions: bool = True) -> None:
        self._retrace = retrace
        self._varies_positions = varies_positions

    @cached_property
    def _graph(self) -> Graph:
        graph = self._retrace()
        drop_dead(graph)
        decompose(graph, lambda op: op.rounding is Rounding.GIVEN)
        return graph

    @cached_property
    def _divided_sums(self) -> frozenset[Node]:
        """The sums that are divided, by way of other axes perhaps: a runtime may add up numbers
        that it has divided before, as ONNX Runtime's norms do."""
        divisions = (node for node in all_nodes(self._graph) if node.op is ops.div)
        dividends = [n.inputs[0].node for n in divisions]
        for node in dividends:
            if node is not None and node.op in (ops.broadcast_in_dim, ops.reshape):
                dividends.append(node.inputs[0].node)
        sums = (node for node in dividends if node is not None)
        return frozenset(node for node in sums if node.op.rounding is Rounding.SUMS)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Parameters by name; those that have no values yet are drawn."""
        unbound = [v for v in self._graph.params if v.bound is None]
        drawn = zip([v.name for v in unbound], draw_inputs(unbound, {}), strict=True)
        return {v.name: v.bound for v in self._graph.params} | dict(drawn)

    @cached_property
    def _run(self) -> Callable[..., tuple[list[Any], Any]]:
        graph = self._graph

        def run(
            args: Sequence[Any], params: Mapping[str, Any], pool: Any, max_iterations: Any
        ) -> Any:
            return evaluate_bounded(
                graph, args, params, _Perturber(pool, self._divided_sums), max_iterations
            )

        # Node by node, what the layers of a network have in common is compiled once. Loops would be
        # compiled anew each time.
        has_loops = any(node.bodies for node in graph.nodes)
        return jax.jit(run) if has_loops else run

    @cached_property
    def _resampling_noise(self) -> "Noise | None":
        """Evaluations of the graph with places between pixels computed as a runtime does, if there
        are any: it is a rounding off where JAX's places, or weights, are known exactly."""
        if not self._varies_positions:
            return None
        graph = self._graph.clone()
        canonicalize(graph)
        resample(graph, PassSettings(target="standard"))
        if not has_resampling(graph):
            return None
        sweep(graph, dict.fromkeys((ops.grid_sample, ops.resize), spelled_out))
        return Noise(lambda: graph, False)

    def evaluate_exact(self, args: Sequence[Any]) -> Exact:
        """The outputs with no errors."""
        outputs, iterations = self._evaluate(args, 0, ENDLESS)
        max_iterations = min(ITERATION_FACTOR * iterations + EXTRA_ITERATIONS, ENDLESS)
        sampled = (
            None
            if self._resampling_noise is None
            else self._resampling_noise._evaluate(args, 0, max_iterations)[0]
        )
        return Exact(outputs, max_iterations, sampled)

    def evaluate_perturbed(
        self, args: Sequence[Any], seed: int, exact: Exact
    ) -> list[np.ndarray] | None:
        """The outputs, with other errors for each ``seed``; None if a loop was not at its end."""
        outputs, iterations = self._evaluate(args, seed, exact.max_iterations)
        if iterations >= exact.max_iterations:
            return None
        if self._resampling_noise is None or exact.resampled_outputs is None:
            return outputs
        perturbed, _ = self._resampling_noise._evaluate(args, seed, exact.max_iterations)
        return [
            _add_displacement(*outputs)
            for outputs in zip(outputs, perturbed, exact.resampled_outputs, strict=True)
        ]

    def _evaluate(
        self, args: Sequence[Any], seed: int, max_iterations: int
    ) -> tuple[list[np.ndarray], int]:
        units = MAX_UNITS if seed else 0
        pool = np.random.default_rng(seed).uniform(-units, units, POOL_SIZE).astype(np.float32)
        with precision(all_nodes(self._graph)), np.errstate(all="ignore"):
            outputs, iterations = self._run(list(args), self.params, pool, np.int32(max_iterations))
            return [np.asarray(y) for y in outputs], int(iterations)


class _Perturber:
    """Applies nodes, their results moved by so many units in the last place.

    It computes with numpy, and with JAX while that is tracing.
    """

    def __init__(self, pool: Any, divided: frozenset[Node]) -> None:
        self._pool = pool
        self._divided_sums = divided
        self._step_counter = count()
        self._np: Any = np if isinstance(pool, np.ndarray) else jnp

    def __call__(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        results = self._perturb_node(node, args, sizes)
        is_open = node.op.any_zero or node.op.rounding is Rounding.FUNCTION
        return [self._randomize_zero_signs(y) for y in results] if is_open else results

    def _perturb_node(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        rounding = node.op.rounding
        if rounding is Rounding.NONE:
            return self._run_node(node, args, sizes)
        args = [self._to_array(x) for x in args]
        if node.op.divides and isinstance(node.meaning, OfHeld):
            args = [
                self._randomize_zero_signs(x) for x in args
            ]  # which infinity it is depends on them
        floats = [x for x in args if is_float(x.dtype)]
        exact = node not in self._divided_sums and _is_exact_arithmetic(rounding, floats)
        if rounding is Rounding.ADDS:
            return [self._perturb_addition(node, args, exact, sizes)]
        if rounding is Rounding.CANCELS:
            return [self._perturb_cancellation(node, args, sizes)]
        if rounding is Rounding.NORMWISE:
            args = [self._perturb_normwise(x, node, i) for i, x in enumerate(args)]
        elif rounding not in (Rounding.ONCE, Rounding.FUNCTION):
            args = [self._perturb_elements(x, exact) for x in args]
        results = [self._to_array(y) for y in self._run_node(node, args, sizes)]
        results = [self._perturb_sum_order(node, args, *results)] if len(results) == 1 else results
        min_magnitude = args[0].dtype.type(1) if node.op is ops.logistic else None
        return [self._perturb_elements(y, exact, min_magnitude) for y in results]

    def _perturb_sum_order(self, node: Node, args: Sequence[Any], total: Any) -> Any:
        """A sum up to half as far off as one number after the other is, or one without roundings.

        What partial sums lose adds up: of numbers that differ as the square root of their count, of
        equal ones in proportion to it, for as long as the last digit stays the same they lose the
        same each time. No operand can be moved at random so that a sum moves as far. ONNX Runtime
        adds up like that along any axis but the last, and XLA products in a batch. An element may
        be several times as far off as its evaluations scatter, so that half of the way is enough.
        """
        terms = self._sum_terms(node, args, total) if is_float(total.dtype) else None
        if terms is None:
            return total
        differences = [self._sum_sequentially(node, terms) - total]
        if self._np is np:
            differences.append(
                self._sum_sequentially(node, terms.astype(np.float64)).astype(total.dtype) - total
            )
        difference = reduce(lambda x, y: self._np.where(abs(y) > abs(x), y, x), differences)
        fraction = abs(self._random_units(total.shape)).astype(total.dtype) / (2 * MAX_UNITS)
        return self._np.where(self._np.isfinite(difference), total + fraction * difference, total)

    def _sum_terms(self, node: Node, args: Sequence[Any], total: Any) -> Any | None:
        """What a node adds up, [terms, *others]; None for what is no sum, or no long one."""
        x, params = args[0], node.params
        if node.op is ops.cumsum:
            return self._reverse_if_needed(node, self._np.moveaxis(x, params["axis"], 0))
        if node.op is ops.reduce_sum:
            return self._move_contracted_axes_first(x, params["axes"], ())
        return self._product_terms(node, args, total) if node.op is ops.dot_general else None

    def _sum_sequentially(self, node: Node, terms: Any) -> Any:
        """Terms that are added up one after the other."""
        if node.op is ops.cumsum:
            sums = self._reverse_if_needed(node, self._cumulative_sums(terms))
            return self._np.moveaxis(sums, 0, node.params["axis"])
        zeros = self._np.zeros((1, *terms.shape[1:]), terms.dtype)
        return self._cumulative_sums(self._np.concatenate([zeros, terms]))[-1]

    def _reverse_if_needed(self, node: Node, terms: Any) -> Any:
        return terms[::-1] if node.params["reverse"] else terms

    def _product_terms(self, node: Node, args: Sequence[Any], total: Any) -> Any | None:
        """What a product of matrices adds up, [terms, *result]; None if it is few or too many."""
        operands, (contracted, batch) = args, node.params["dimension_numbers"]
        count = math.prod(args[0].shape[axis] for axis in contracted[0])
        # Half precision is added up in float32.
        is_half_precision = total.dtype.itemsize < 4
        if is_half_precision or count < MIN_DOT_TERMS or count * total.size > MAX_DOT_TERMS:
            return None
        x, y = (
            self._move_contracted_axes_first(*operand)
            for operand in zip(operands, contracted, batch, strict=True)
        )
        shared_axes = len(batch[0]) + 1
        x = x.reshape(*x.shape, *(1,) * (y.ndim - shared_axes))
        y = y.reshape(
            *y.shape[:shared_axes], *(1,) * (total.ndim + 1 - y.ndim), *y.shape[shared_axes:]
        )
        return (x * y).astype(total.dtype)

    def _move_contracted_axes_first(
        self, x: Any, summed: Sequence[int], batch: Sequence[int]
    ) -> Any:
        """[terms, *batch, *others]"""
        other_axes = [i for i in range(x.ndim) if i not in (*summed, *batch)]
        shape = [
            math.prod(x.shape[i] for i in summed),
            *(x.shape[i] for i in (*batch, *other_axes)),
        ]
        return self._np.transpose(x, [*summed, *batch, *other_axes]).reshape(shape)

    def _cumulative_sums(self, terms: Any) -> Any:
        """Partial sums along the first axis, of one row more each."""
        if self._np is np:
            return np.add.accumulate(terms, 0)
        _, sums = lax.scan(lambda total, row: (total + row,) * 2, jnp.zeros_like(terms[0]), terms)
        return sums

    def _run_node(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """A node's results; what numpy has is only that of the operands as they are."""
        eager = self._np is np and not isinstance(node.meaning, OfHeld)
        return (run_uncompiled if eager else run_node)(node, args, sizes)

    def _randomize_zero_signs(self, value: Any) -> Any:
        """Zeros of either sign."""
        if not is_float(value.dtype):
            return value
        value = self._to_array(value)
        sign = self._random_units(value.shape).astype(value.dtype)
        return self._np.where((value == 0) & (sign != 0), self._np.copysign(value, sign), value)

    def _perturb_cancellation(self, node: Node, args: Sequence[Any], sizes: Sizes) -> Any:
        """A result moved as far as float64 is from it, besides."""
        result = self._to_array(self._run_node(node, args, sizes)[0])
        with enable_x64(True), np.errstate(invalid="ignore"):
            truth = run_node(node, [x.astype(np.float64) for x in args], sizes)[0]
            error = abs(result - self._to_array(truth)).astype(result.dtype)
        displacement = self._random_units(result.shape).astype(result.dtype) * error
        perturbed = self._perturb_elements(
            self._run_node(node, [self._perturb_elements(x, False) for x in args], sizes)[0], False
        )
        return self._np.where(self._np.isfinite(displacement), perturbed + displacement, perturbed)

    def _perturb_addition(self, node: Node, args: Sequence[Any], exact: Any, sizes: Sizes) -> Any:
        products = [v.node is not None and v.node.op.multiplies for v in node.inputs]
        perturbed = [
            self._perturb_elements(x, exact) if p else x
            for x, p in zip(args, products, strict=True)
        ]
        result = self._to_array(self._run_node(node, perturbed, sizes)[0])
        absorbed = (abs(result) == abs(perturbed[0])) | (abs(result) == abs(perturbed[1]))
        return self._np.where(absorbed, result, self._perturb_elements(result, exact))

    def _to_array(self, value: Any) -> Any:
        return self._np.asarray(value) if is_float(value.dtype) else value

    def _perturb_elements(self, value: Any, exact: Any, floor: Any = None) -> Any:
        """Every element a little up or down, but for numbers of few digits where ``exact`` holds.

        Numbers below ``floor`` move as much as it does, but not beyond zero. What a processor may
        take for zero is taken for zero by half of the evaluations: multiplied by a large number,
        it would be another result.
        """
        if not is_float(value.dtype):
            return value
        info, xp = jnp.finfo(value.dtype), self._np
        step = (self._random_units(value.shape) * float(info.eps)).astype(value.dtype)
        threshold = value.dtype.type(info.smallest_normal) if floor is None else floor / 8
        shifted = xp.copysign(abs(value) + threshold * abs(step), value)
        is_small = (abs(value) < threshold) & ((value != 0) | (floor is not None))
        perturbed = xp.where(is_small, shifted, value * (1 + step))
        if not isinstance(exact, bool) or exact:
            perturbed = xp.where(exact & _has_few_digits(value), value, perturbed)
        is_flushed = (abs(value) < value.dtype.type(_flush_threshold(info))) & (step < 0)
        perturbed = xp.where(is_flushed, xp.copysign(xp.zeros_like(value), value), perturbed)
        return perturbed.astype(
            value.dtype
        )  # ml_dtypes 0.5.0 makes float32 of bfloat16 and a number

    def _perturb_normwise(self, value: Any, node: Node, operand_index: int) -> Any:
        """Every element of a matrix off as much as the largest that is read, or as what bounds it
        where rows and columns are each for themselves; in a large matrix more.

        In an element meet as many roundings as the matrix has rows, and they add up as the square
        root of that (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 2.8;
        section 19.3 for columns that are orthogonalized, 9.3 for those that are eliminated and 10.1
        for Cholesky's factor).
        """
        if not is_float(value.dtype):
            return value
        parts = 2 if isinstance(node.meaning, OfHeld) else 1  # of its numbers
        magnitudes = self._np.where(self._np.isfinite(value), abs(value), 0)
        if parts > 1:
            magnitudes = magnitudes.max(-1)
        if operand_index == 0 and node.op.triangle:
            magnitudes = magnitudes * _read_triangle_mask(node, magnitudes.shape[-2:])
        largest = self._largest_magnitude(
            magnitudes, node.op.vectors(operand_index, node.params) if node.op.vectors else ""
        )
        rows = max(magnitudes.shape[-2:], default=1)
        largest = 8 * largest * math.sqrt(parts * rows)
        return self._perturb_elements(value, False, largest[..., None] if parts > 1 else largest)

    def _largest_magnitude(self, magnitudes: Any, vectors: Vectors) -> Any:
        """The largest element of matrices, or of what is by itself of them: an axis of one."""
        if vectors == "both":
            root = self._np.sqrt(self._np.diagonal(magnitudes, 0, -2, -1))
            return root[..., :, None] * root[..., None, :]
        axes = {"rows": (-1,), "columns": (-2,), "": (-2, -1)[-magnitudes.ndim :]}[vectors]
        return magnitudes.max(axes, keepdims=True, initial=0)

    def _random_units(self, shape: tuple[int, ...]) -> Any:
        """Random numbers, other ones for each step."""
        start, size = next(self._step_counter) * 977 % (POOL_SIZE // 2), math.prod(shape)
        if start + size <= POOL_SIZE:
            return self._pool[start : start + size].reshape(shape)
        return self._np.resize(self._pool[start:], shape)


def _add_displacement(
    value: np.ndarray, perturbed: np.ndarray, unperturbed: np.ndarray
) -> np.ndarray:
    """Floats, as much further off as others have been moved."""
    if not is_float(value.dtype):
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        displacement = perturbed - unperturbed
        return np.where(np.isfinite(displacement), value + displacement, value)


def _read_triangle_mask(node: Node, shape: tuple[int, int]) -> np.ndarray:
    """Elements that are read of a matrix: of two factors that lie in one the other may be a million
    times as large."""
    assert node.op.triangle is not None
    lower, strict = node.op.triangle(node.params)
    rows, columns = shape if lower else shape[::-1]
    lower_mask = np.tri(rows, columns, -int(strict), dtype=bool)
    return lower_mask if lower else lower_mask.T


def _flush_threshold(info: Any) -> float:
    """Below what XLA takes numbers for zero; half precision it computes in float32."""
    return min(float(info.smallest_normal), float(jnp.finfo(np.float32).smallest_normal))


def _has_few_digits(x: Any) -> Any:
    """Where numbers have so few digits that sums and products of two are exact.

    Adding and subtracting a large multiple leaves the upper half of the digits (Veltkamp).
    """
    digits = int(jnp.finfo(x.dtype).nmant)
    scaled = x * x.dtype.type(2.0 ** (digits - digits // 2) + 1)
    return scaled - (scaled - x) == x


EXACTNESS_TESTS: Mapping[Rounding, Callable[[Any], Any]] = {
    Rounding.ONCE: _has_few_digits,  # IEEE 754 has one result
    Rounding.ADDS: _has_few_digits,
    Rounding.FUNCTION: lambda x: _has_few_digits(x) & (abs(x) <= 1),  # of 0, 1 and -1, if at all
    Rounding.SUMS: lambda x: _has_few_digits(x).all(),
}
"""Of which operands an operation does not round, if its result is a number of few digits."""


def _is_exact_arithmetic(rounding: Rounding, args: Sequence[Any]) -> Any:
    return rounding in EXACTNESS_TESTS and reduce(
        operator.and_, map(EXACTNESS_TESTS[rounding], args), True
    )
