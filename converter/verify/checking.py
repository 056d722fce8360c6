"""Compare a file in ONNX Runtime with JAX, element by element, at every optimization level."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from converter.errors import CheckError, ConverterError
from converter.frontend.array_forms import is_key, key_numbers, to_graph_array
from converter.frontend.diagnostics import DIMENSION_ERRORS, first_line
from converter.frontend.interface import Interface
from converter.frontend.trace import trace
from converter.ir import Graph
from converter.ir.complex_pairs import pack_complex
from converter.ir.named_sizes import all_names
from converter.model.results import Export
from converter.model.verdict import (
    Difference,
    Elements,
    Errors,
    Level,
    Verdict,
    compare,
    larger_errors,
)
from converter.verify.elements import Judge, Judgement, first_position
from converter.verify.noise import PerturbedEvaluation, has_resampling
from converter.verify.samples import DISTRIBUTIONS, check_inputs_allowed
from converter.verify.sessions import Model, iter_sessions, run_sample
from converter.verify.steering import BASIC_SEEDS, Coverage, draw_steered_samples, measure_coverage
from converter.verify.step_by_step import LegalEvaluator

MAX_WRONG_SAMPLES = 4
"""Samples with wrong elements after which a level of optimization is not run on further samples.

The file has failed by then. To judge a wrong element takes ``MAX_PERTURBED_RUNS`` evaluations.
"""


def check(
    model: Model,
    fn: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    *,
    seed: int = 0,
    accept_open: Collection[str] = (),
) -> Verdict:
    """Compare the outputs of a model in ONNX Runtime with the outputs of ``fn`` in JAX.

    Integers and Booleans have to be equal. A float may differ by its rounding error: the effect on
    this element of rounding at every step of what JAX computes (``converter.verify.noise``). If
    there is no graph to evaluate, for example because JAX cannot trace ``fn``, the tolerance is a
    rounding error of the largest element of the array. Where rounding can lead to infinity or NaN,
    an element is right if it is as close as JAX to the result of ``fn`` in float64. If ``fn`` has
    several legal results, for example node by node and compiled as a whole, an element is right if
    the file and JAX have one of them. Where this cannot be decided the element is open, and the
    file does not pass. Complex numbers are compared as the model has them, with the real and
    imaginary parts on a last axis of size two.

    Arguments:
        model: an export, an onnx_ir model, a path, or a session. A session is run as it is. Other
            models are run at every optimization level of ONNX Runtime. If their weights are in a
            separate file, they are run only without optimizations. The first sample is run twice at
            each level, because memory that a kernel does not initialize may differ between runs.
        fn: the function that is called with the inputs. The leaves of its result are compared with
            the outputs of the model in order.
        inputs: arrays as the function takes them, or pytrees of them. Without inputs, ``model`` has
            to be an export, and samples are drawn (see below).
        seed: seed of the inputs that are drawn.
        accept_open: names of outputs whose open elements are accepted. Unknown names are ignored.

    Drawn samples:
        Several samples are drawn: normal, repeated, zero and large numbers, indices within bounds,
        and the extremes of named dimensions for which an evaluation takes at most 4 GiB. A small
        function gets at least 32 samples. If the program has branches, loops or index bounds, up to
        256 more inputs are tried. Those that are the first to take a branch, a number of loop
        iterations or a side of a bound become samples. After four samples with wrong elements, the
        other samples are not compared at this optimization level.

    Returns:
        The verdict: a dictionary from output names to the largest errors, with ``passed``,
        ``differences`` and ``elements``. Its ``untaken`` contains a sentence for each branch,
        number of loop iterations and side of an index bound that no sample reached, and for each
        sample that was left out because a loop does not end on it.

    Raises:
        CheckError: the inputs or outputs do not fit the model, there are no inputs and ``model`` is
            not an export, JAX cannot evaluate the function, a loop ends on no drawn inputs, or ONNX
            Runtime cannot run the model. Also if the model does not pass, and the function returns
            other numbers when it is called again on the same inputs. A model that merely does not
            pass raises no error.
    """
    cases, coverage = draw_cases(model, fn, inputs, seed, accept_open)
    verdict = Verdict(coverage.tried, coverage.untaken())
    for level, live_session in iter_sessions(model):
        wrong_samples = 0
        for case in (*cases, cases[0]):
            actual = run_sample(live_session, case.judge.inputs, case.judge.name)
            with _translate_evaluation_errors(case.judge.name, case.judge.inputs):
                comparisons = case.compare_run(actual)
            _record_comparisons(comparisons, case, level, verdict)
            wrong_samples += any(comparison.judgement.is_wrong.any() for comparison in comparisons)
            if wrong_samples == MAX_WRONG_SAMPLES:
                break
    if not verdict.passed:
        _refuse_impure(cases[0])
    return verdict


def draw_cases(
    model: Model,
    fn: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    seed: int = 0,
    accept_open: Collection[str] = (),
) -> tuple[list[Case], Coverage]:
    """Return the samples on which a model is verified, and their coverage.

    Arguments:
        model: an export, an onnx_ir model, a path, or a session.
        fn: the function that the model was converted from.
        inputs: arrays as the function takes them. Without inputs, ``model`` has to be an export,
            and samples are drawn as in ``check``.
        seed: seed of the inputs that are drawn.
        accept_open: names of outputs whose open elements are accepted.

    Returns:
        The cases to compare, with the outputs of JAX. The coverage says for each branch, number of
        loop iterations and side of an index bound whether a sample took it.

    Raises:
        CheckError: the inputs do not fit the model, JAX cannot evaluate the function, a loop ends
            on no drawn inputs, or there are no inputs and ``model`` is no export.
    """
    interface = model.interface if isinstance(model, Export) else Interface()
    call = interface.wrap(fn)
    run = call
    size_names: Sequence[str] = ()
    if inputs is not None:
        drawn = [("given", interface.to_file_arrays(jax.tree.leaves(list(inputs))))]
        if isinstance(model, Export):
            check_inputs_allowed(model.graph, drawn[0][1])
        traced, noise = _trace_reference(model, call, drawn[0][1])
        params = noise.params if noise is not None else None
        graph_arrays = [to_graph_array(x) for x in drawn[0][1]]
        coverage = measure_coverage(traced, params, [graph_arrays])
    elif isinstance(model, Export):
        traced, noise = _trace_reference(model, call, [])
        params = noise.params if noise is not None else None
        assert traced is not None
        allows_extra = not model.report.fails_verification
        size_names = all_names(model.graph.inputs)
        with _translate_evaluation_errors("drawn", model.graph.inputs, size_names):
            drawn, coverage = draw_steered_samples(model.graph, traced, params, seed, allows_extra)
        if len(drawn) > BASIC_SEEDS and any(node.bodies for node in traced.nodes):
            run = _compile_if_traceable(call)
    else:
        raise CheckError("only an export describes its inputs; pass inputs")
    cases, evaluator = list[Case](), LegalEvaluator(call)
    for index, (name, arrays) in enumerate(drawn):
        with _translate_evaluation_errors(name, arrays, size_names):
            evaluate_again = partial(_evaluate_function, call, arrays)
            expected = _evaluate_function(call if index < len(DISTRIBUTIONS) else run, arrays)
            judge = Judge(noise, arrays, name, call, evaluator)
            cases.append(Case(judge, expected, accept_open, evaluate_again))
    return cases, coverage


def _evaluate_function(call: Callable[..., Any], arrays: Sequence[Any]) -> list[np.ndarray]:
    """Return the outputs of a function for arrays, as numpy arrays."""
    # `jnp.asarray` is not used, because JAX would compile it.
    results = call(*jax.device_put(list(arrays)))
    return [_to_numpy(x) for x in jax.tree.leaves(results)]


def _compile_if_traceable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``call`` compiled as a whole, or step by step if JAX cannot
    trace it.

    Both are tried in each call of the returned function. Called step by step, a function with loops
    compiles each loop again in every call.
    """
    compiled = jax.jit(call)

    def run(*arrays: Any) -> Any:
        try:
            return compiled(*arrays)
        except (*DIMENSION_ERRORS, ConverterError):
            return call(*arrays)

    return run


def _refuse_impure(case: Case) -> None:
    """Raise `CheckError` if the function returns other outputs when it is called again on a sample.

    The bytes of the outputs are compared, so that a change in the last place is also found.
    """
    pairs = zip(case.expected, case.evaluate_again(), strict=True)
    same = [x.tobytes() == y.tobytes() for x, y in pairs]
    if not all(same):
        raise CheckError(
            f"two calls of the function with the same inputs differ in output {same.index(False)}: "
            "it depends on something else, such as a counter, a clock or Python's random numbers. "
            "Give that as an input, a jax.random key for one, and convert again"
        )


@contextmanager
def _translate_evaluation_errors(
    name: str, inputs: Sequence[Any], size_names: Sequence[str] = ()
) -> Iterator[None]:
    """Raise `CheckError` in place of an error of XLA or a ``MemoryError`` in the ``with`` block,
    and of an error about a drawn size.

    Arguments:
        name: name of the sample, used in the message.
        inputs: the inputs of the sample, whose shapes are used in the message.
        size_names: the named dimensions whose sizes are drawn.
    """
    size_errors = (TypeError, ValueError) if size_names else ()
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError, OverflowError, *size_errors) as error:
        shapes = ", ".join(str(list(x.shape)) for x in inputs)
        advice = ""
        if isinstance(error, size_errors):
            text = f"mod({size_names[0]}, 2) == 0"
            advice = f"; if only some sizes are valid, say which, such as constraints=['{text}']"
        raise CheckError(
            f"JAX cannot evaluate the function on {name} inputs of {shapes}: {first_line(error)}"
            f"{advice}"
        ) from error


@dataclass(frozen=True)
class OutputComparison:
    """Comparison of one output of a run with JAX.

    Arguments:
        output: name of the output.
        actual: the array of the file.
        expected: the array of JAX, with the parts of complex numbers on the last axis.
        errors: largest errors. Open elements that are accepted are not included, and neither are
            elements of ``Judgement.rounding_decides``.
        judgement: masks of the elements that are wrong or open.
    """

    output: str
    actual: np.ndarray
    expected: np.ndarray
    errors: Errors
    judgement: Judgement


@dataclass
class Case:
    """Inputs with the outputs of JAX for them, and the comparison with the last run of the file.

    Arguments:
        judge: the judge of results on these inputs.
        expected: outputs of JAX. They may come from the function compiled as a whole, where XLA
            rounds at other steps.
        accepted_outputs: names of outputs whose open elements do not fail the file.
        evaluate_again: calls the function again, step by step, and returns its outputs. They
            replace ``expected`` if an element of the file is wrong or open in comparison with it.
        last_comparisons: the comparison with the last run, by output.
    """

    judge: Judge
    expected: list[np.ndarray]
    accepted_outputs: Collection[str]
    evaluate_again: Callable[[], list[np.ndarray]]
    last_comparisons: list[OutputComparison] = field(default_factory=list)

    def compare_run(self, actual: dict[str, np.ndarray]) -> list[OutputComparison]:
        """Return the comparison of each output of one run with JAX, in the order of the outputs.

        If all outputs have the same bytes as in the last run, the comparison of that run is
        returned again. If an element is wrong or open, the function is evaluated again step by
        step. Its outputs replace ``self.expected``, and the comparison with them is returned. The
        result is also stored in ``self.last_comparisons``.

        Arguments:
            actual: the arrays of the file by name of the output, in the order of the function's
                outputs.

        Raises:
            CheckError: the number of outputs, or the shape or dtype of one, is not that of JAX.
        """
        if len(actual) != len(self.expected):
            raise CheckError(
                f"the model has {len(actual)} outputs, the function gave {len(self.expected)}"
            )
        same = [
            x.tobytes() == y.actual.tobytes()
            for x, y in zip(actual.values(), self.last_comparisons, strict=False)
        ]
        if not (self.last_comparisons and all(same)):
            self.last_comparisons = self._compare_outputs(actual)
            if any(
                comparison.judgement.is_wrong.any() or comparison.judgement.is_open.any()
                for comparison in self.last_comparisons
            ):
                self.expected = self.evaluate_again()
                self.last_comparisons = self._compare_outputs(actual)
        return self.last_comparisons

    def _compare_outputs(self, actual: dict[str, np.ndarray]) -> list[OutputComparison]:
        """Return the comparison of each output of one run with JAX.

        Raises:
            CheckError: the shape or the dtype of an output is not that of JAX.
        """
        arrays = list(actual.values())
        pairs = zip(self.expected, arrays, strict=True)
        expected = [_to_jax_precision(y, x.dtype) for y, x in pairs]
        errors = [compare(x, y) for x, y in zip(arrays, expected, strict=True)]
        judgements = self.judge.judge_outputs(arrays, expected)
        return [
            self._compare_output(*parts)
            for parts in zip(actual, arrays, expected, errors, judgements, strict=True)
        ]

    def _compare_output(
        self,
        output: str,
        actual: np.ndarray,
        expected: np.ndarray,
        errors: Errors,
        judgement: Judgement,
    ) -> OutputComparison:
        """Return the comparison of one output with JAX.

        Arguments:
            output: name of the output.
            actual: the array of the file.
            expected: the array of JAX.
            errors: the differences of the two.
            judgement: the judgement of the elements.
        """
        packed_expected = pack_complex(expected)
        is_accepted = judgement.rounding_decides | (
            judgement.is_open & (output in self.accepted_outputs)
        )
        if is_accepted.any():
            errors = compare(np.where(is_accepted, packed_expected, actual), packed_expected)
        return OutputComparison(output, actual, packed_expected, errors, judgement)


def _record_comparisons(
    comparisons: list[OutputComparison], case: Case, level: Level, verdict: Verdict
) -> None:
    """Add the comparisons of one run to a verdict, in place.

    Arguments:
        comparisons: the comparison of each output.
        case: the sample.
        level: optimization level of the run.
        verdict: gets the larger errors, the numbers of elements, and for each output the first
            wrong element and the first open one that is not accepted.
    """
    for comparison in comparisons:
        name, judgement, sample = comparison.output, comparison.judgement, case.judge.name
        verdict[name] = larger_errors(verdict.get(name), comparison.errors)
        open_count = int(judgement.is_open.sum())
        counts = Elements(
            comparison.actual.size - open_count, int(judgement.rounding_decides.sum()), open_count
        )
        verdict.elements[name] = verdict.elements.get(name, Elements()) + counts
        masks = [(judgement.is_wrong, False)]
        masks += [(judgement.is_open, True)] if name not in case.accepted_outputs else []
        for mask, is_open in masks:
            for position in first_position(mask):
                pair = str(comparison.actual[position]), str(comparison.expected[position])
                difference = Difference(
                    sample, level, name, position, *pair, is_open, case.judge.inputs
                )
                verdict.differences.append(difference)


def _to_numpy(leaf: Any) -> np.ndarray:
    """Return a leaf as a numpy array.

    A Python number is converted to the dtype that it has in JAX. PRNG keys are converted to their
    numbers.
    """
    is_number = isinstance(leaf, bool | int | float | complex)
    return np.asarray(jax.device_put(leaf) if is_number else key_numbers(leaf))


def _to_jax_precision(expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a 64-bit result of numpy in ``dtype``, if JAX would convert it to that dtype.

    JAX does so unless x64 is enabled. Other arrays are returned unchanged.
    """
    needs_cast = expected.dtype != dtype and jax.dtypes.canonicalize_dtype(expected.dtype) == dtype
    return expected.astype(dtype) if needs_cast else expected


def _trace_reference(
    model: Model, fn: Callable[..., Any], inputs: Sequence[Any]
) -> tuple[Graph | None, PerturbedEvaluation | None]:
    """Return the traced graph with which a model is compared, and its perturbed evaluations.

    An export is compared with the graph that it was traced from; ``fn`` and ``inputs`` are not
    used. Another model is compared with ``fn``, traced for these inputs.

    Perturbed evaluations estimate rounding errors. The graph is None if JAX cannot trace the
    function. The evaluations are None if there is no graph, if a parameter of an export has no
    value, or if the function of another model does not use its inputs.
    """
    if isinstance(model, Export):
        traced = model.retrace()
        has_all_values = all(v.bound is not None or v.program for v in model.graph.params)
        if not has_all_values:
            return traced, None
        retrace_calls = model.retrace if has_resampling(model.graph) else None
        functions = model.report.absolute_functions
        return traced, PerturbedEvaluation(traced.clone, retrace_calls, functions)
    specs = [x if is_key(x) else np.asarray(x) for x in inputs]
    try:
        traced = trace(fn, specs)
    except (*DIMENSION_ERRORS, ConverterError):
        return None, None
    uses = traced.uses()
    is_constant = not any(id(v) in uses for v in traced.inputs)
    if is_constant:
        return traced, None
    return traced, PerturbedEvaluation(
        traced.clone, lambda calls: trace(fn, specs, kept_calls=calls)
    )
