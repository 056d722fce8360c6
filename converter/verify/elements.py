"""Judge which elements of a result are right, wrong or open.

An element is open if rounding could explain its difference, but there is no evidence that it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from converter.errors import ConverterError
from converter.frontend.array_forms import is_key, key_numbers, to_graph_array
from converter.frontend.diagnostics import DIMENSION_ERRORS
from converter.ir.complex_pairs import is_complex, pack_complex, unpack_complex
from converter.ir.dtypes import is_float, to_float64
from converter.jax_versions import enable_x64
from converter.verify.explanation import (
    ROUNDING_UNITS,
    SPREAD_FACTOR,
    absolute_difference,
    classify_unexplained,
    is_perturbed_integer,
    rounding_error,
    row_rounding_error,
)
from converter.verify.noise import PerturbedEvaluation, UnperturbedResult
from converter.verify.step_by_step import LegalEvaluator, LegalResults

MAX_PERTURBED_RUNS = 32
"""Number of perturbed evaluations before a difference counts as unexplained. A right result needs
few, because elements that are explained are not considered again."""

COARSE_ROUNDING = 256
"""Tolerance in units in the last place of the largest element, used if there is no graph to
evaluate."""


@dataclass(frozen=True)
class Judgement:
    """Decision about each element of an output, as three Boolean masks of the output's shape.

    An element that is in none of the masks is right, and finite unless the file and JAX have the
    same infinity or NaN.

    Arguments:
        is_wrong: elements whose difference is not explained by rounding.
        is_open: elements whose difference could be explained by rounding, without evidence that it
            is.
        rounding_decides: right elements for which the rounding error determines whether the result
            is finite, infinite or NaN, or which infinity it is. The results of the file and of JAX
            differ there, and at least one of them is not finite.
    """

    is_wrong: np.ndarray
    is_open: np.ndarray
    rounding_decides: np.ndarray


def first_position(mask: np.ndarray) -> list[tuple[int, ...]]:
    """Return a list with the position of the first true element of a mask, or an empty list if
    none is true."""
    return [tuple(map(int, position)) for position in np.argwhere(mask)[:1]]


class Judge:
    """Judge of the results that a file computes for one set of inputs.

    It evaluates the graph with random rounding errors only as often as a decision needs.

    Arguments:
        noise: perturbed evaluations of the traced graph; None if there is no graph.
        inputs: the inputs that the results belong to.
        name: name of the sample, used in messages.
        function: the function that the graph was traced from. It is evaluated in float64 where
            rounding leads to infinity or NaN.
        evaluator: evaluates the function node by node and compiled where an element is not
            explained.
    """

    def __init__(
        self,
        noise: PerturbedEvaluation | None,
        inputs: Sequence[Any],
        name: str = "",
        function: Callable[..., Any] | None = None,
        evaluator: LegalEvaluator | None = None,
    ) -> None:
        self.name = name
        self.inputs = [np.asarray(to_graph_array(x)) for x in inputs]
        self._original_inputs = list(inputs)
        self._noise = noise
        self._function = function
        self._evaluator = evaluator
        self._evaluations: list[list[np.ndarray]] = []
        self._has_unfinished_loop = False

    def judge_outputs(
        self, actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]
    ) -> list[Judgement]:
        """Return the judgement of each output of a run.

        The outputs are judged one by one. If an element is wrong or open, the whole run is right if
        all elements are the results of the function with its nodes of float16 and bfloat16 in
        float32, except for rounding. ONNX Runtime computes such nodes in float32. A run with some
        elements of this evaluation and some of another one is not right.

        Arguments:
            actual: the arrays of the file.
            expected: the arrays of JAX.
        """
        pairs = list(zip(actual, expected, strict=True))
        judgements = [self.judge(i, x, y) for i, (x, y) in enumerate(pairs)]
        are_right = all(not (j.is_wrong | j.is_open).any() for j in judgements)
        if are_right or self._noise is None or not self._is_result_in_float32(pairs):
            return judgements
        return [self._judge_as_right(i, x, y) for i, (x, y) in enumerate(pairs)]

    def _is_result_in_float32(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Return True if all elements are the results of one evaluation of the function with its
        nodes of float16 and bfloat16 in float32, except for rounding.

        ``pairs`` contains for each output the array of the file and that of JAX.
        """
        legal = self._legal_results
        evaluations = [] if legal is None else legal.in_float32
        return any(self._matches(results, pairs) for results in evaluations)

    def _matches(
        self, results: Sequence[np.ndarray], pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> bool:
        """Return True if the arrays of the file are those of an evaluation, except for rounding."""
        for i, (actual, expected) in enumerate(pairs):
            result = results[i]
            if is_complex(expected.dtype):
                result = unpack_complex(result, expected.ndim)
            if result.shape != expected.shape:
                return False
            unexplained, _ = self._find_unexplained(i, actual, result)
            if unexplained.any():
                return False
        return True

    def _judge_as_right(
        self, output_index: int, actual: np.ndarray, expected: np.ndarray
    ) -> Judgement:
        """Return a judgement without wrong and open elements."""
        unexplained, _ = self._find_unexplained(output_index, actual, expected)
        are_finite = np.isfinite(actual) & np.isfinite(pack_complex(expected))
        no_element = np.zeros(unexplained.shape, bool)
        return Judgement(no_element, no_element, unexplained & ~are_finite)

    def judge(self, output_index: int, actual: np.ndarray, expected: np.ndarray) -> Judgement:
        """Return for each element of an output whether it is right, wrong or open.

        Integers and Booleans have to be equal, unless rounding errors in the program can change
        them. Floats may differ by their rounding error, which is estimated from perturbed
        evaluations of the graph. Without a graph, floats may differ by ``COARSE_ROUNDING`` units in
        the last place of the largest element, and integers have to be equal.

        Arguments:
            output_index: position of the output among the outputs of the function.
            actual: the array of the file. A complex output has its real and imaginary parts on the
                last axis. Both may differ by the tolerance of the larger one.
            expected: the array of JAX, of a complex dtype for a complex output.

        Returns:
            Masks of the shape of ``actual``.
        """
        unexplained, tolerance = self._find_unexplained(output_index, actual, expected)
        no_element = np.zeros(unexplained.shape, bool)
        if self._noise is None:
            return Judgement(unexplained, no_element, no_element)
        if not unexplained.any():
            return Judgement(no_element, no_element.copy(), no_element.copy())
        has_several, is_right = self._compare_with_legal_results(
            output_index, actual, pack_complex(expected), tolerance
        )
        is_right &= unexplained
        judgement = self._judge_unexplained(
            output_index, actual, expected, unexplained & ~is_right, tolerance
        )
        are_finite = np.isfinite(actual) & np.isfinite(pack_complex(expected))
        return Judgement(
            judgement.is_wrong & ~has_several,
            judgement.is_open | (judgement.is_wrong & has_several),
            judgement.rounding_decides | (is_right & ~are_finite),
        )

    def _find_unexplained(
        self, output_index: int, actual: np.ndarray, expected: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask of the elements whose difference rounding does not explain, and the largest
        difference of each element that it explains. The arguments are those of ``judge``."""
        difference = absolute_difference(actual, pack_complex(expected))
        tolerance = rounding = rounding_error(expected)
        if self._noise is None:
            # Without perturbed evaluations, all elements get a tolerance from the largest one.
            largest = COARSE_ROUNDING / ROUNDING_UNITS * rounding.max(initial=0.0)
            return difference > largest, np.full(difference.shape, largest)
        unexplained = difference > tolerance
        for run_index in range(1, MAX_PERTURBED_RUNS + 1):
            if not unexplained.any():
                break
            spread = SPREAD_FACTOR * self._perturbation_spread(run_index, output_index, expected)
            tolerance = np.maximum(tolerance, rounding + spread)
            unexplained = difference > tolerance
        return unexplained, tolerance

    def _compare_with_legal_results(
        self, output_index: int, actual: np.ndarray, expected: np.ndarray, tolerance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return two masks: elements at which the function has several results, and those of them
        at which the file has one of the results and JAX has one.

        Two results count as several if they differ by more than the tolerance.

        Arguments:
            output_index: position of the output.
            actual: the array of the file.
            expected: the array of JAX, in which complex numbers are pairs.
            tolerance: largest difference of each element that rounding explains.
        """
        legal = self._legal_results
        shapes = () if legal is None else [y.shape for y in legal.evaluations[0]]
        if legal is None or shapes != [np.shape(y) for y in self.run(0)]:
            return np.zeros(actual.shape, bool), np.zeros(actual.shape, bool)
        first, *others = (outputs[output_index] for outputs in legal.evaluations)

        def is_near(results: np.ndarray, reference: np.ndarray) -> np.ndarray:
            limits = np.maximum(tolerance, rounding_error(reference))
            return np.asarray(absolute_difference(results, reference) <= limits)

        has_several = np.any([~is_near(other, first) for other in others], 0)
        is_file_legal, is_jax_legal = (
            np.any([is_near(array, result) for result in (first, *others)], 0)
            for array in (actual, expected)
        )
        return has_several, has_several & is_file_legal & is_jax_legal

    def _judge_unexplained(
        self,
        output_index: int,
        actual: np.ndarray,
        expected: np.ndarray,
        unexplained: np.ndarray,
        tolerance: np.ndarray,
    ) -> Judgement:
        """Judge the elements of an output that differ by more than the tolerance.

        Arguments:
            output_index: position of the output.
            actual: the array of the file.
            expected: the array of JAX.
            unexplained: mask of the elements to judge. Other elements are right.
            tolerance: largest difference of each element that rounding explains.
        """
        wrong, is_open, rounding_decides = (np.zeros(unexplained.shape, bool) for _ in range(3))
        runs = [np.asarray(self.run(i)[output_index]) for i in range(MAX_PERTURBED_RUNS + 1)]
        evaluations = np.stack([result[unexplained] for result in runs])
        pair = np.asarray(actual)[unexplained], np.asarray(pack_complex(expected))[unexplained]
        if expected.dtype.kind in "biu":
            possible = [is_perturbed_integer(numbers, evaluations) for numbers in pair]
            wrong[unexplained] = ~(possible[0] & possible[1])
            return Judgement(wrong, is_open, rounding_decides)
        truth, limits = None, tolerance[unexplained]
        if self._float64_outputs is not None:
            truth = self._float64_outputs[output_index][unexplained]
            # A matrix may have no factorization after it is perturbed. Then the evaluations do not
            # determine a tolerance.
            is_never_finite = ~np.isfinite(to_float64(evaluations[1:])).any(0)
            rows = row_rounding_error(expected, self._float64_outputs[output_index])[unexplained]
            limits = np.where(is_never_finite, np.maximum(limits, rows), limits)
        legal = self._legal_results
        leaves_range = legal is not None and legal.leaves_range[output_index]
        judged = classify_unexplained(*pair, evaluations, truth, limits, leaves_range)
        wrong[unexplained], is_open[unexplained], rounding_decides[unexplained] = judged
        if legal is not None and legal.leaves_half_range[output_index]:
            is_open, wrong = is_open | wrong, np.zeros_like(wrong)
        return Judgement(wrong, is_open, rounding_decides)

    def _perturbation_spread(
        self, run_index: int, output_index: int, expected: np.ndarray
    ) -> np.ndarray:
        """Return the absolute difference of each element between one perturbed evaluation and the
        unperturbed one.

        Infinite differences are treated as zero. Both parts of a complex number get the larger
        difference.

        Arguments:
            run_index: number of the perturbed evaluation, from 1.
            output_index: position of the output.
            expected: the array of JAX, whose dtype determines whether the output is complex.
        """
        difference = absolute_difference(
            self.run(run_index)[output_index], self.run(0)[output_index]
        )
        difference = np.where(np.isfinite(difference), difference, 0.0)
        return (
            difference.max(-1, keepdims=True) + 0 * difference
            if is_complex(expected.dtype)
            else difference
        )

    def run(self, run_index: int) -> list[np.ndarray]:
        """Return the outputs of one evaluation of the graph, which is computed on first use.

        Run 0 is unperturbed. Every other run has other random rounding errors. If a loop does not
        end because of the errors, floats are NaN and integers have the values of run 0.
        """
        assert self._noise is not None
        exact = self._unperturbed
        self._evaluations = self._evaluations or [exact.outputs]
        while len(self._evaluations) <= run_index:
            perturbed = self._noise.evaluate_perturbed(self.inputs, len(self._evaluations), exact)
            self._has_unfinished_loop = self._has_unfinished_loop or perturbed is None
            self._evaluations.append(perturbed or [_undetermined_output(y) for y in exact.outputs])
        return self._evaluations[run_index]

    @cached_property
    def _unperturbed(self) -> UnperturbedResult:
        """The results of the graph without perturbations."""
        assert self._noise is not None
        return self._noise.evaluate_exact(self.inputs)

    @cached_property
    def _legal_results(self) -> LegalResults | None:
        """The results of the function node by node and compiled as a whole; None if they are not
        known."""
        if self._evaluator is None:
            return None
        return self._evaluator.evaluate(self._original_inputs)

    @cached_property
    def _float64_outputs(self) -> list[np.ndarray] | None:
        """The outputs of the function for the inputs in float64.

        None if the function is not known or cannot be evaluated in float64, if its outputs then
        have other shapes, or if a loop did not end in a perturbed evaluation.
        """
        if self._function is None or self._has_unfinished_loop:
            return None
        try:
            with enable_x64(True):
                results = self._function(
                    *jax.device_put([_to_float64_input(x) for x in self._original_inputs])
                )
                leaves = [
                    pack_complex(np.asarray(key_numbers(x))) for x in jax.tree.leaves(results)
                ]
        except (*DIMENSION_ERRORS, ConverterError):
            return None
        shapes = [np.shape(y) for y in self.run(0)]
        return leaves if [y.shape for y in leaves] == shapes else None


def _undetermined_output(output: np.ndarray) -> np.ndarray:
    """Return NaN in the shape of an output of floats; other outputs are returned unchanged."""
    return np.full_like(output, np.nan) if is_float(output.dtype) else output


def _to_float64_input(x: Any) -> Any:
    """Return floats in float64 and complex numbers in complex128; integers and PRNG keys are
    returned unchanged."""
    if is_key(x):
        return x
    array = np.asarray(x)
    if is_complex(array.dtype):
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_float(array.dtype) else array
