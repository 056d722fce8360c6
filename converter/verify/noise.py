"""Estimate the effect of rounding on a result: evaluate the graph with a random error in each step.

A runtime may round differently from JAX at every step. The effect depends on the element: a sum
that cancels changes much, a large product next to it hardly at all. The graph is therefore
evaluated several times, with each step changed at random by up to two units in the last place. An
element may differ by the spread of these evaluations (stochastic arithmetic; Vignes, 2004,
doi:10.1023/B:NUMA.0000049483.75679.ce).

XLA flushes subnormal results to zero and other runtimes do not, so they are zero in some of the
evaluations. The perturbation applies to the result of a step. For a step that rounds several times
inside, it applies to the operands too, which bounds the effect of these roundings (backward error),
and sums are evaluated in another order. Steps that only select numbers stay exact, and so does
arithmetic on numbers of few digits.
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
from converter.frontend.array_forms import HeldFunction
from converter.ir import Graph, Node, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import (
    ENDLESS,
    Sizes,
    all_nodes,
    evaluate_bounded,
    run_node,
    run_uncompiled,
    use_precision_of,
)
from converter.ir.op import Linear, Rounding, Vectors
from converter.ir.rewrite import drop_dead, sweep
from converter.jax_versions import enable_x64
from converter.pipeline.settings import PassSettings
from converter.pipeline.steps import expand_formula, fuse_resampling, name_calls
from converter.verify.samples import draw_inputs

MAX_UNITS = 2
"""Largest perturbation of a step, in units in the last place."""

MIN_DOT_TERMS, MAX_DOT_TERMS = 1024, 1 << 22
"""A matrix product with at least ``MIN_DOT_TERMS`` terms in each sum and at most ``MAX_DOT_TERMS``
terms in total is also summed sequentially. Shorter sums lose less than their perturbations."""

ITERATION_FACTOR, EXTRA_ITERATIONS = 4, 256
"""Limit of loop iterations with perturbations: this multiple of the iterations without them, plus a
constant. A loop that waits for an exact number may never end with random errors."""

POOL_SIZE = 1 << 16
"""Number of random numbers that all steps of an evaluation share, each from another offset."""


def has_resampling(graph: Graph) -> bool:
    """Return True if operators of the graph compute sampling positions between pixels."""
    return any(map(_computes_sampling_positions, graph.walk()))


def _computes_sampling_positions(node: Node) -> bool:
    linear = node.op is ops.resize and node.params["kinds"][0][0] != "nearest"
    return linear or node.op is ops.grid_sample


class Exact(NamedTuple):
    """Results of an evaluation without perturbations.

    Arguments:
        outputs: the outputs of the graph.
        max_iterations: limit of loop iterations for the perturbed evaluations.
        resampled_outputs: the outputs with sampling positions computed as a runtime computes them;
            None if the graph has none.
    """

    outputs: list[np.ndarray]
    max_iterations: int
    resampled_outputs: list[np.ndarray] | None


class Noise:
    """Perturbed evaluations of a graph, for any number of inputs.

    Arguments:
        retrace: returns a new copy of the traced graph.
        retrace_calls: returns a new copy in which the calls of functions with these names are kept;
            None if the sampling positions of the file have no rounding error.
    """

    def __init__(
        self,
        retrace: Callable[[], Graph],
        retrace_calls: Callable[[frozenset[str]], Graph] | None = None,
    ) -> None:
        self._retrace = retrace
        self._retrace_calls = retrace_calls

    @cached_property
    def _graph(self) -> Graph:
        graph = self._retrace()
        drop_dead(graph)
        decompose(graph, lambda op: op.rounding is Rounding.CALLER)
        return graph

    @cached_property
    def _divided_sums(self) -> frozenset[Node]:
        """The sums that are divided afterwards, also through a reshape or broadcast.

        A runtime may add numbers that it has divided before, as ONNX Runtime's norms do.
        """
        divisions = (node for node in all_nodes(self._graph) if node.op is ops.div)
        dividends = [n.inputs[0].node for n in divisions]
        for node in dividends:
            if node is not None and node.op in (ops.broadcast_in_dim, ops.reshape):
                dividends.append(node.inputs[0].node)
        sums = (node for node in dividends if node is not None)
        return frozenset(node for node in sums if node.op.rounding is Rounding.SUMS)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Parameters by name; parameters without values are drawn at random."""
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

        # Evaluated node by node, operations that layers have in common are compiled once. Loops
        # would be compiled again each time.
        has_loops = any(node.bodies for node in graph.nodes)
        return jax.jit(run) if has_loops else run

    @cached_property
    def _resampling_noise(self) -> "Noise | None":
        """Evaluations with sampling positions computed as a runtime computes them; None if there
        are none.

        These positions have a rounding error where JAX knows positions or weights exactly.
        """
        if self._retrace_calls is None:
            return None
        settings = PassSettings(target="standard")
        graph = self._retrace_calls(settings.calls)
        name_calls(graph, settings)
        canonicalize(graph)
        fuse_resampling(graph, settings)
        if not has_resampling(graph):
            return None
        sweep(graph, dict.fromkeys((ops.grid_sample, ops.resize), expand_formula))
        return Noise(lambda: graph)

    def evaluate_exact(self, args: Sequence[Any]) -> Exact:
        """Return the outputs without perturbations."""
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
        """Return the outputs with the perturbations of a ``seed``; None if a loop did not end."""
        outputs, iterations = self._evaluate(args, seed, exact.max_iterations)
        if iterations >= exact.max_iterations:
            return None
        if self._resampling_noise is None or exact.resampled_outputs is None:
            return outputs
        perturbed, _ = self._resampling_noise._evaluate(args, seed, exact.max_iterations)
        return [
            _add_displacement(*arrays)
            for arrays in zip(outputs, perturbed, exact.resampled_outputs, strict=True)
        ]

    def _evaluate(
        self, args: Sequence[Any], seed: int, max_iterations: int
    ) -> tuple[list[np.ndarray], int]:
        units = MAX_UNITS if seed else 0
        pool = np.random.default_rng(seed).uniform(-units, units, POOL_SIZE).astype(np.float32)
        with use_precision_of(all_nodes(self._graph)), np.errstate(all="ignore"):
            outputs, iterations = self._run(list(args), self.params, pool, np.int32(max_iterations))
            return [np.asarray(y) for y in outputs], int(iterations)


class _Perturber:
    """Evaluator of nodes that perturbs their results.

    It computes with numpy, or with JAX while JAX is tracing.
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
        if node.op.divides and isinstance(node.meaning, HeldFunction):
            # The sign of a zero decides which infinity a division gives.
            args = [self._randomize_zero_signs(x) for x in args]
        if node.op.linear is Linear.SEPARATELY and is_float(node.out.dtype):
            # A product of integers with a float result rounds the integers first.
            args = [x if is_float(x.dtype) else x.astype(node.out.dtype) for x in args]
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
        perturbed = [self._perturb_elements(y, exact, min_magnitude) for y in results]
        if node.op.float64_units and node.out.dtype == np.float64:
            return [self._perturb_float64_function(y, node.op.float64_units) for y in perturbed]
        return perturbed

    def _perturb_float64_function(self, value: Any, units: int) -> Any:
        """Return the value with each element changed by up to the error of XLA's function."""
        step = self._random_units(value.shape).astype(value.dtype) / MAX_UNITS
        return value * (1 + step * (units * float(np.finfo(value.dtype).eps)))

    def _perturb_sum_order(self, node: Node, args: Sequence[Any], total: Any) -> Any:
        """Return a sum with up to half of the difference to a sequential sum, or to one in float64.

        The rounding errors of partial sums add up. For different numbers they grow with the square
        root of the count. For equal numbers they grow in proportion to the count while the last
        digit stays the same. Random perturbations of the operands do not reach this. ONNX Runtime
        sums sequentially along any axis but the last, and XLA does in batched products. Half of the
        difference is enough because an element may differ by several times the spread.
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
        """Return the terms that a node adds, [terms, *others]; None if it is not a sum, or a
        product that is not re-summed."""
        x, params = args[0], node.params
        if node.op is ops.cumsum:
            return self._reverse_if_needed(node, self._np.moveaxis(x, params["axis"], 0))
        if node.op is ops.reduce_sum:
            return self._move_contracted_axes_first(x, params["axes"], ())
        return self._product_terms(node, args, total) if node.op is ops.dot_general else None

    def _sum_sequentially(self, node: Node, terms: Any) -> Any:
        """Return the sum of the terms, added one after the other."""
        if node.op is ops.cumsum:
            sums = self._reverse_if_needed(node, self._cumulative_sums(terms))
            return self._np.moveaxis(sums, 0, node.params["axis"])
        zeros = self._np.zeros((1, *terms.shape[1:]), terms.dtype)
        return self._cumulative_sums(self._np.concatenate([zeros, terms]))[-1]

    def _reverse_if_needed(self, node: Node, terms: Any) -> Any:
        return terms[::-1] if node.params["reverse"] else terms

    def _product_terms(self, node: Node, args: Sequence[Any], total: Any) -> Any | None:
        """Return the terms of a matrix product, [terms, *result]; None for half precision and for
        too few or too many."""
        operands, (contracted, batch) = args, node.params["dimension_numbers"]
        count = math.prod(args[0].shape[axis] for axis in contracted[0])
        # Half precision is accumulated in float32.
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
        return x.astype(total.dtype) * y.astype(total.dtype)

    def _move_contracted_axes_first(
        self, x: Any, summed: Sequence[int], batch: Sequence[int]
    ) -> Any:
        """Return the operand as [terms, *batch, *others]."""
        other_axes = [i for i in range(x.ndim) if i not in (*summed, *batch)]
        shape = [
            math.prod(x.shape[i] for i in summed),
            *(x.shape[i] for i in (*batch, *other_axes)),
        ]
        return self._np.transpose(x, [*summed, *batch, *other_axes]).reshape(shape)

    def _cumulative_sums(self, terms: Any) -> Any:
        """Return the partial sums along the first axis."""
        if self._np is np:
            return np.add.accumulate(terms, 0)
        zeros = jnp.zeros(terms.shape[1:], terms.dtype)
        _, sums = lax.scan(lambda total, row: (total + row,) * 2, zeros, terms)
        return sums

    def _run_node(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the results of a node; numpy is used only for operations whose operands it takes
        unchanged."""
        eager = self._np is np and not isinstance(node.meaning, HeldFunction)
        return (run_uncompiled if eager else run_node)(node, args, sizes)

    def _randomize_zero_signs(self, value: Any) -> Any:
        """Return the value with random signs for its zeros."""
        if not is_float(value.dtype):
            return value
        value = self._to_array(value)
        sign = self._random_units(value.shape).astype(value.dtype)
        return self._np.where((value == 0) & (sign != 0), self._np.copysign(value, sign), value)

    def _perturb_cancellation(self, node: Node, args: Sequence[Any], sizes: Sizes) -> Any:
        """Return a result that is also perturbed by its difference to the result in float64."""
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
        """Return the value with each element perturbed, but for numbers of few digits where
        ``exact`` holds.

        Numbers below ``floor`` are perturbed as much as ``floor``, without a change of sign.
        Numbers that a processor may flush to zero are zero in half of the evaluations, because a
        product with a large number would show the difference.
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
        # With ml_dtypes 0.5.0, bfloat16 and a Python number give float32.
        return perturbed.astype(value.dtype)

    def _perturb_normwise(self, value: Any, node: Node, operand_index: int) -> Any:
        """Return a matrix with each element perturbed relative to its largest element that is read.

        For operations whose rows or columns are independent, the largest element of the row or
        column counts instead. The perturbation grows with the square root of the number of rows,
        because as many roundings affect each element (Higham, *Accuracy and Stability of Numerical
        Algorithms*, 2002, section 2.8; section 19.3 for orthogonalized columns, 9.3 for elimination
        and 10.1 for Cholesky's factor).
        """
        if not is_float(value.dtype):
            return value
        parts = 2 if isinstance(node.meaning, HeldFunction) else 1  # real and imaginary
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
        """Return the largest element of each matrix, row or column; the reduced axes have size
        one."""
        if vectors == "both":
            root = self._np.sqrt(self._np.diagonal(magnitudes, 0, -2, -1))
            return root[..., :, None] * root[..., None, :]
        axes = {"rows": (-1,), "columns": (-2,), "": (-2, -1)[-magnitudes.ndim :]}[vectors]
        return magnitudes.max(axes, keepdims=True, initial=0)

    def _random_units(self, shape: tuple[int, ...]) -> Any:
        """Return random perturbations in units in the last place, different for each step."""
        start, size = next(self._step_counter) * 977 % (POOL_SIZE // 2), math.prod(shape)
        if start + size <= POOL_SIZE:
            return self._pool[start : start + size].reshape(shape)
        return self._np.resize(self._pool[start:], shape)


def _add_displacement(
    value: np.ndarray, perturbed: np.ndarray, unperturbed: np.ndarray
) -> np.ndarray:
    """Return floats displaced by the difference between a perturbed and an unperturbed
    evaluation."""
    if not is_float(value.dtype):
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        displacement = perturbed - unperturbed
        return np.where(np.isfinite(displacement), value + displacement, value)


def _read_triangle_mask(node: Node, shape: tuple[int, int]) -> np.ndarray:
    """Return the mask of the elements of a matrix that a node reads.

    Two factors may share a matrix, and the other one may be a million times as large.
    """
    assert node.op.triangle is not None
    lower, strict = node.op.triangle(node.params)
    rows, columns = shape if lower else shape[::-1]
    lower_mask = np.tri(rows, columns, -int(strict), dtype=bool)
    return lower_mask if lower else lower_mask.T


def _flush_threshold(info: Any) -> float:
    """Return the magnitude below which XLA flushes to zero; it computes half precision in
    float32."""
    return min(float(info.smallest_normal), float(jnp.finfo(np.float32).smallest_normal))


def _has_few_digits(x: Any) -> Any:
    """Return where numbers have so few digits that sums and products of two are exact.

    Adding and subtracting a large multiple keeps the upper half of the digits (Veltkamp).
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
"""Conditions on the operands under which an operation does not round, if its result has few
digits."""


def _is_exact_arithmetic(rounding: Rounding, args: Sequence[Any]) -> Any:
    return rounding in EXACTNESS_TESTS and reduce(
        operator.and_, map(EXACTNESS_TESTS[rounding], args), True
    )
