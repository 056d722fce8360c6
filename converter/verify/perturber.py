"""Evaluate one node of a graph with random rounding errors.

XLA flushes subnormal results to zero and other runtimes do not. Such results are therefore zero in
some of the evaluations. The perturbation is applied to the result of a node. If a node rounds
several times internally, the perturbation is also applied to its operands, which bounds the effect
of these rounding errors (backward error), and sums are evaluated in a different order. Nodes that
only select numbers are not perturbed, and neither is arithmetic on numbers with few digits.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import reduce
from itertools import count
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.frontend.array_forms import GraphFormFunction
from converter.ir import Node, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import Sizes, SteppedApply, run_eagerly, run_node
from converter.ir.op import Linear, Rounding, Vectors
from converter.jax_versions import enable_x64
from converter.verify.sequential_sums import sum_sequentially, sum_terms

MAX_UNITS = 2
"""Largest perturbation of the result of a node, in units in the last place."""

POOL_SIZE = 1 << 16
"""Number of random numbers that all nodes of an evaluation share, each from another offset."""

NODE_STRIDE, STEP_STRIDE = 977, 7919
"""Distances between the offsets of consecutive nodes, and of consecutive steps of a scan. They are
odd, so that the offsets repeat only after ``POOL_SIZE // 2`` nodes or steps."""


class Perturber(SteppedApply):
    """Function that evaluates one node and perturbs its results
    (``converter.ir.evaluation.Apply``).

    It computes with numpy if ``pool`` is a numpy array, otherwise with JAX. The random numbers
    differ between the steps of a scan. They are the same in all turns of a ``while`` loop, which
    may wait until its numbers no longer change.

    Arguments:
        pool: array of random numbers in units in the last place.
        divided_sums: nodes that compute a sum which is divided afterwards. Their results are
            perturbed even if all terms have few digits.
        rounded_values: ids of the values that may contain a rounding error.
        absolute_functions: operations by name, with a magnitude for each. Smaller results are
            perturbed as much as results of this magnitude.
    """

    def __init__(
        self,
        pool: Any,
        divided_sums: frozenset[Node],
        rounded_values: frozenset[int],
        absolute_functions: Mapping[str, float],
    ) -> None:
        self._pool = pool
        self._divided_sums = divided_sums
        self._rounded_values = rounded_values
        self._absolute_functions = absolute_functions
        self._call_counter = count()
        self._scan_offset: Any = None
        self._np: Any = np if isinstance(pool, np.ndarray) else jnp

    def in_step(self, step: Any) -> "Perturber":
        """Return the function for a step of a scan, with other random numbers."""
        inner = copy(self)
        outer_offset = 0 if self._scan_offset is None else self._scan_offset
        inner._scan_offset = (outer_offset * 7 + step * STEP_STRIDE) % (POOL_SIZE // 2)
        return inner

    def __call__(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the results of a node with random rounding errors.

        Zeros of the results get random signs if the sign of a zero is open for the operation, if
        the runtime may compute the function by other formulas (``Rounding.FUNCTION``), or if they
        are sums of numbers that are all -0.0.

        Arguments:
            node: the node.
            args: the arrays of its operands.
            sizes: sizes of the named dimensions.
        """
        results = self._perturb_node(node, args, sizes)
        if node.op.zero_sign_is_open or node.op.rounding is Rounding.FUNCTION:
            return [self._randomize_zero_signs(y) for y in results]
        if node.op.rounding is Rounding.SUMS and node.op.linear is not Linear.NOT:
            return [self._randomize_sums_of_negative_zeros(node, args, results[0], sizes)]
        return results

    def _perturb_node(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the results of a node with the rounding errors of its operation
        (``node.op.rounding``).

        A node that only selects numbers is evaluated without errors. For a node that rounds several
        times inside, the operands are perturbed as well as the results.

        Arguments:
            node: the node.
            args: the arrays of its operands.
            sizes: sizes of the named dimensions.
        """
        rounding = node.op.rounding
        if rounding is Rounding.NONE:
            return self._run_node(node, args, sizes)
        args = [self._to_array(x) for x in args]
        if node.op.divides and isinstance(node.meaning, GraphFormFunction):
            # The sign of a zero is kept, because it determines the sign of the infinity that a
            # division returns.
            args = [self._randomize_zero_signs(x) for x in args]
        if node.op.linear is Linear.SEPARATELY and is_float(node.out.dtype):
            # If a product of integers has a float result, the integers are rounded before they are
            # multiplied.
            args = [x if is_float(x.dtype) else x.astype(node.out.dtype) for x in args]
        floats = [x for x in args if is_float(x.dtype)]
        is_exact = node not in self._divided_sums and _is_exact_arithmetic(rounding, floats)
        if rounding is Rounding.ADDS:
            return [self._perturb_addition(node, args, is_exact, sizes)]
        if rounding is Rounding.CANCELS:
            return [self._perturb_cancellation(node, args, sizes)]
        if rounding is Rounding.NORMWISE:
            args = [self._perturb_normwise(x, node, i) for i, x in enumerate(args)]
        elif rounding not in (Rounding.ONCE, Rounding.FUNCTION) or (
            node.op.rounds_float64_operand and node.out.dtype == np.float64
        ):
            args = [self._perturb_elements(x, is_exact) for x in args]
        results = [self._to_array(y) for y in self._run_node(node, args, sizes)]
        results = [self._perturb_sum_order(node, args, *results)] if len(results) == 1 else results
        magnitude = self._absolute_functions.get(node.op.name)
        unit_magnitude = None if magnitude is None else args[0].dtype.type(8 * magnitude)
        perturbed = [self._perturb_elements(y, is_exact, unit_magnitude) for y in results]
        if node.op is ops.convert_element_type and node.out.dtype == jnp.bfloat16:
            return [self._perturb_underflow(args[0], *perturbed)]
        if node.op.float64_units and node.out.dtype == np.float64:
            return [self._perturb_float64_function(y, node.op.float64_units) for y in perturbed]
        return perturbed

    def _perturb_underflow(self, operand: Any, rounded: Any) -> Any:
        """Return the rounded operand, with the smallest normal number instead of a zero where the
        operand is not zero.

        bfloat16 has the exponents of float32, so that only subnormal operands underflow. They are
        flushed to zero in other evaluations, as a subnormal result would be in all of them.
        """
        smallest = self._np.copysign(jnp.finfo(rounded.dtype).smallest_normal, operand)
        underflows = (rounded == 0) & (operand != 0)
        return self._np.where(underflows, smallest, rounded).astype(rounded.dtype)

    def _perturb_float64_function(self, value: Any, units: int) -> Any:
        """Return the value with each element changed by a random error of at most ``units`` units
        in the last place, the largest error of XLA's function in float64."""
        step = self._random_units(value.shape).astype(value.dtype) / MAX_UNITS
        return value * (1 + step * (units * float(np.finfo(value.dtype).eps)))

    def _perturb_sum_order(self, node: Node, args: Sequence[Any], total: Any) -> Any:
        """Return the sum ``total`` of a node, moved at random towards the same sum in another
        order.

        Each element moves by up to half of its difference to a sequential sum. With numpy it is the
        difference to a sequential sum in float64 if that is larger. Other nodes than sums, and
        products that ``sum_terms`` excludes, return ``total`` unchanged.

        The rounding errors of partial sums add up. For different numbers they grow with the square
        root of the count. For equal numbers they grow in proportion to the count while the last
        digit stays the same. Random perturbations of the operands do not reach this. ONNX Runtime
        sums sequentially along any axis but the last, and XLA does in batched products. Half of the
        difference is enough because an element may differ by several times the spread.
        """
        terms = sum_terms(self._np, node, args, total) if is_float(total.dtype) else None
        if terms is None:
            return total
        differences = [sum_sequentially(self._np, node, terms) - total]
        if self._np is np:
            differences.append(
                sum_sequentially(self._np, node, terms.astype(np.float64)).astype(total.dtype)
                - total
            )
        difference = reduce(lambda x, y: self._np.where(abs(y) > abs(x), y, x), differences)
        fraction = abs(self._random_units(total.shape)).astype(total.dtype) / (2 * MAX_UNITS)
        return self._np.where(self._np.isfinite(difference), total + fraction * difference, total)

    def _run_node(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the results of a node for the arrays ``args`` of its operands, without
        perturbations.

        If this object computes with numpy, numpy runs the node without compilation if it has the
        operation for these dtypes. Otherwise, and for complex operands, JAX runs it.
        """
        eager = self._np is np and not isinstance(node.meaning, GraphFormFunction)
        return (run_eagerly if eager else run_node)(node, args, sizes)

    def _randomize_sums_of_negative_zeros(
        self, node: Node, args: Sequence[Any], total: Any, sizes: Sizes
    ) -> Any:
        """Return the result ``total`` of a node that adds numbers or products, with random signs
        for the sums whose terms are all -0.0.

        Such a sum is 0.0 if it starts with 0.0, and -0.0 if it starts with the first term. Any
        other sum that is zero is 0.0 in every order (IEEE 754-2019, 6.3).
        """
        args = [self._to_array(x) for x in args]
        if not all(is_float(x.dtype) for x in (*args, total)):
            return total

        def run(arrays: Sequence[Any]) -> Any:
            return self._to_array(self._run_node(node, arrays, sizes)[0])

        def randomize() -> Any:
            signs = [self._np.copysign(self._np.ones_like(x), x) for x in args]
            # XLA would compute products of constant ones while it compiles.
            count = run([abs(sign) for sign in signs])
            are_negative = (run(signs) == -count) & (count > 0)
            is_open = are_negative & (run([abs(x) for x in args]) == 0)
            return self._np.where(is_open, self._randomize_zero_signs(total), total)

        has_zero = (total == 0).any()
        if self._np is np:
            return randomize() if has_zero else total
        return lax.cond(has_zero, randomize, lambda: total)

    def _randomize_zero_signs(self, value: Any) -> Any:
        """Return a float array with random signs for its zeros; other dtypes are returned
        unchanged."""
        if not is_float(value.dtype):
            return value
        value = self._to_array(value)
        sign = self._random_units(value.shape).astype(value.dtype)
        return self._np.where((value == 0) & (sign != 0), self._np.copysign(value, sign), value)

    def _perturb_cancellation(self, node: Node, args: Sequence[Any], sizes: Sizes) -> Any:
        """Return the result of a node, changed at random by up to ``MAX_UNITS`` times its error.

        The error is the difference to the same operation in float64. It is larger than units in the
        last place where the terms of XLA's approximation cancel. An error below the numbers that
        XLA flushes to zero is ignored. The operands and the result are also perturbed by units in
        the last place.
        """
        result = self._to_array(self._run_node(node, args, sizes)[0])
        with enable_x64(True), np.errstate(invalid="ignore"):
            truth = run_node(node, [x.astype(np.float64) for x in args], sizes)[0]
            error = abs(result - self._to_array(truth)).astype(result.dtype)
        threshold = result.dtype.type(_flush_threshold(jnp.finfo(result.dtype)))
        error = self._np.where(error < threshold, self._np.zeros_like(error), error)
        displacement = self._random_units(result.shape).astype(result.dtype) * error
        perturbed = self._perturb_elements(
            self._run_node(node, [self._perturb_elements(x, False) for x in args], sizes)[0], False
        )
        return self._np.where(self._np.isfinite(displacement), perturbed + displacement, perturbed)

    def _perturb_addition(
        self, node: Node, args: Sequence[Any], is_exact: Any, sizes: Sizes
    ) -> Any:
        """Return the sum of two operands ``args``, perturbed by units in the last place.

        If an operand is a product, it is also perturbed, because XLA may fuse the product into the
        addition and round only once. A sum that is equal to one operand is not perturbed, because
        the other operand is zero or too small to change it. If an operand has a rounding error, a
        sum that may be zero without it is zero in some of the evaluations, in all elements
        together.

        ``is_exact`` says where numbers of few digits are not perturbed (``_perturb_elements``).
        """
        products = [v.node is not None and v.node.op.can_fuse_into_sum for v in node.inputs]
        perturbed = [
            self._perturb_elements(x, is_exact) if is_product else x
            for x, is_product in zip(args, products, strict=True)
        ]
        result = self._to_array(self._run_node(node, perturbed, sizes)[0])
        magnitudes = [abs(x) for x in perturbed]
        absorbed = (abs(result) == magnitudes[0]) | (abs(result) == magnitudes[1])
        result = self._np.where(absorbed, result, self._perturb_elements(result, is_exact))
        is_exact_sum = self._rounded_values.isdisjoint(id(v) for v in node.inputs)
        if is_exact_sum or not is_float(result.dtype):
            return result
        rounding_error = 2 * MAX_UNITS * float(jnp.finfo(result.dtype).eps) * magnitudes[0]
        is_cancelled = (abs(result) <= rounding_error.astype(result.dtype)) & ~absorbed
        is_cancelled &= self._pool[0] < -MAX_UNITS / 2
        return self._np.where(is_cancelled, self._np.zeros_like(result), result)

    def _to_array(self, value: Any) -> Any:
        """Return a float as an array of numpy or JAX, whichever computes; other dtypes are returned
        unchanged."""
        return self._np.asarray(value) if is_float(value.dtype) else value

    def _perturb_elements(self, value: Any, is_exact: Any, unit_magnitude: Any = None) -> Any:
        """Return the value with each element changed at random by up to ``MAX_UNITS`` units in the
        last place.

        Numbers that a processor may flush to zero are zero in half of the evaluations, because a
        product with a large number would show the difference. Integers are returned unchanged.

        Arguments:
            value: the array.
            is_exact: whether numbers with few digits are not perturbed, as a bool or as a mask of
                elements.
            unit_magnitude: eight times the magnitude t below which all elements, also zeros, are
                changed by up to ``MAX_UNITS`` units in the last place of t, away from zero. If it
                is None, t is the smallest normal number, and zeros are not changed.
        """
        if not is_float(value.dtype):
            return value
        info, xp = jnp.finfo(value.dtype), self._np
        step = (self._random_units(value.shape) * float(info.eps)).astype(value.dtype)
        threshold = (
            value.dtype.type(info.smallest_normal) if unit_magnitude is None else unit_magnitude / 8
        )
        shifted = xp.copysign(abs(value) + threshold * abs(step), value)
        is_small = (abs(value) < threshold) & ((value != 0) | (unit_magnitude is not None))
        perturbed = xp.where(is_small, shifted, value * (1 + step))
        if not isinstance(is_exact, bool) or is_exact:
            perturbed = xp.where(is_exact & _has_few_digits(value), value, perturbed)
        is_flushed = (abs(value) < value.dtype.type(_flush_threshold(info))) & (step < 0)
        perturbed = xp.where(is_flushed, xp.copysign(xp.zeros_like(value), value), perturbed)
        # In ml_dtypes 0.5.0, the result of bfloat16 and a Python number is float32.
        return perturbed.astype(value.dtype)

    def _perturb_normwise(self, value: Any, node: Node, operand_index: int) -> Any:
        """Return the operand of a matrix operation with each element perturbed relative to the
        largest element of the matrix.

        Only elements that the node reads are considered. If the rows or columns of an operation are
        independent, the largest element of the row or column is used instead. The perturbation
        grows with the square root of the larger of the two matrix sizes, because as many roundings
        affect each element (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section
        2.8; section 19.3 for orthogonalized columns, 9.3 for elimination and 10.1 for Cholesky's
        factor). Integers are returned unchanged.
        """
        if not is_float(value.dtype):
            return value
        # The real and the imaginary part of a complex number are two elements.
        parts = 2 if isinstance(node.meaning, GraphFormFunction) else 1
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
        """Return the largest magnitude of each matrix, or of each of its rows or columns, as
        ``vectors`` says.

        ``vectors`` is "rows", "columns", "both", or "" for the full matrix. The reduced axes have
        size one. For "both", the element in row i and column j gets ``sqrt(m[i, i] * m[j, j])`` of
        the magnitudes m.
        """
        if vectors == "both":
            root = self._np.sqrt(self._np.diagonal(magnitudes, 0, -2, -1))
            return root[..., :, None] * root[..., None, :]
        axes = {"rows": (-1,), "columns": (-2,), "": (-2, -1)[-magnitudes.ndim :]}[vectors]
        return magnitudes.max(axes, keepdims=True, initial=0)

    def _random_units(self, shape: tuple[int, ...]) -> Any:
        """Return an array of random perturbations between ``-MAX_UNITS`` and ``MAX_UNITS`` units in
        the last place.

        They are elements of the pool, from another offset in each call. If the pool is too short
        for the shape, they are repeated. They are zero in an evaluation without perturbations.
        """
        start, size = next(self._call_counter) * NODE_STRIDE % (POOL_SIZE // 2), math.prod(shape)
        if self._scan_offset is not None:
            start = (start + self._scan_offset) % (POOL_SIZE // 2)
            units = lax.dynamic_slice(self._pool, [start], [min(size, POOL_SIZE // 2)])
            return jnp.resize(units, shape)
        if start + size <= POOL_SIZE:
            return self._pool[start : start + size].reshape(shape)
        return self._np.resize(self._pool[start:], shape)


def _read_triangle_mask(node: Node, shape: tuple[int, int]) -> np.ndarray:
    """Return the mask of the elements that a node reads of matrices of this shape.

    The operand is triangular. Two factors may share a matrix, and the other one may be a million
    times as large.
    """
    assert node.op.triangle is not None
    lower, strict = node.op.triangle(node.params)
    rows, columns = shape if lower else shape[::-1]
    lower_mask = np.tri(rows, columns, -int(strict), dtype=bool)
    return lower_mask if lower else lower_mask.T


def _flush_threshold(info: Any) -> float:
    """Return the magnitude below which XLA flushes numbers of a float type to zero.

    It is the smallest normal number of the type, or of float32 for half precision, which XLA
    computes in float32. ``info`` is the ``finfo`` of the type.
    """
    return min(float(info.smallest_normal), float(jnp.finfo(np.float32).smallest_normal))


def _has_few_digits(x: Any) -> Any:
    """Return a mask of the numbers with few binary digits, so that sums and products of two are
    exact.

    Adding and subtracting a large multiple keeps the upper half of the digits (Veltkamp).
    """
    digits = int(jnp.finfo(x.dtype).nmant)
    scaled = x * x.dtype.type(2.0 ** (digits - digits // 2) + 1)
    return scaled - (scaled - x) == x


EXACTNESS_TESTS: Mapping[Rounding, Callable[[Any], Any]] = {
    Rounding.ONCE: _has_few_digits,  # IEEE 754 defines the result exactly
    Rounding.ADDS: _has_few_digits,
    # A function whose result is exact for some operands is exact at 0, 1 and -1.
    Rounding.FUNCTION: lambda x: _has_few_digits(x) & (abs(x) <= 1),
    Rounding.SUMS: lambda x: _has_few_digits(x).all(),
}
"""Conditions on the operands under which an operation does not round, if its result has few
digits."""


def _is_exact_arithmetic(rounding: Rounding, operands: Sequence[Any]) -> Any:
    """Return True, or a mask of elements, where an operation on these operands does not round.

    It holds only if the result also has few digits. False if ``EXACTNESS_TESTS`` has no condition
    for this kind of rounding.
    """
    return rounding in EXACTNESS_TESTS and reduce(
        operator.and_, map(EXACTNESS_TESTS[rounding], operands), True
    )
