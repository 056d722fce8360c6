"""Find the first step of a conversion that changes a number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from converter.errors import CheckError
from converter.frontend.array_forms import to_graph_array
from converter.ir import Graph
from converter.ir.complex_pairs import is_complex, unpack_complex
from converter.ir.evaluation import evaluate
from converter.ir.op import Op
from converter.model.verdict import OPEN_TEXT
from converter.pipeline.passes import distinct_passes
from converter.verify.elements import Judge, first_position
from converter.verify.noise import PerturbedEvaluation
from converter.verify.sessions import iter_sessions, run_sample
from converter.verify.step_by_step import LegalEvaluator

EVALUATION_ERRORS = (AssertionError, IndexError, KeyError, TypeError, ValueError)
"""Errors that the evaluation of a malformed graph raises."""


@dataclass(frozen=True)
class Change:
    """Step of a conversion that changed a result, with a description of the change.

    Arguments:
        step: the name of a pass, "trace" before all passes, "file", or "optimised file" if the file
            is wrong only after ONNX Runtime's optimizations.
        description: what changed, such as the element and its numbers. An element also counts as
            changed if it is open, that is, if it is not known whether rounding explains its
            difference.
    """

    step: str
    description: str

    def __str__(self) -> str:
        return f"after '{self.step}', {self.description}"


class StepChangedError(CheckError):
    """Error of a step that changed a number, or left an operation that should be eliminated.

    ``change`` is the step with the description.
    """

    def __init__(self, step: str, description: str) -> None:
        self.change = Change(step, description)
        super().__init__(str(self.change))


class PassChecker:
    """Observer of a conversion that checks the results of the graph after each pass.

    No result may change by more than its rounding error. The results are compared with those of the
    traced graph (``Judge``). An operation that a pass eliminates may not occur after this pass or a
    later one.

    Arguments:
        retrace: returns a new copy of the traced graph, optionally with the calls of functions with
            some names kept.
        samples: names and inputs of the samples on which the graph is evaluated.
        function: the function that was traced.
    """

    def __init__(
        self,
        retrace: Callable[..., Graph],
        samples: Sequence[tuple[str, Sequence[Any]]],
        function: Callable[..., Any],
    ) -> None:
        noise = PerturbedEvaluation(retrace, retrace)
        self._params = noise.params
        self._function = function
        evaluator = LegalEvaluator(function)
        self._judges = [Judge(noise, inputs, name, function, evaluator) for name, inputs in samples]
        self._eliminated: set[Op] = set()

    def __call__(self, name: str, graph: Graph) -> None:
        """Check the graph after the pass of this name.

        Raises:
            StepChangedError: there is an operation that this pass or an earlier one eliminates, the
                graph cannot be evaluated, or a result differs from that of the traced graph.
        """
        for step in distinct_passes():
            self._eliminated |= step.eliminates if step.name == name else frozenset()
        reintroduced = sorted(
            {node.op.name for node in graph.walk() if node.op in self._eliminated}
        )
        if reintroduced:
            raise StepChangedError(
                name, f"there is a '{reintroduced[0]}', of which none should be left"
            )
        for judge in self._judges:
            try:
                results = evaluate(graph, judge.inputs, self._params)
            except EVALUATION_ERRORS as error:
                description = f"the graph does not evaluate: {type(error).__name__}: {error}"
                raise StepChangedError(name, description) from error
            _check_unchanged(judge, name, results)

    def check_trace(self) -> None:
        """Raise `StepChangedError` if the traced graph does not compute the results of the
        function."""
        for judge in self._judges:
            results = self._function(*jax.device_put(judge.inputs))
            _check_unchanged(judge, "trace", jax.tree.leaves(results))

    def check_file(self, model: Any) -> None:
        """Raise `StepChangedError` if the written model computes other results at any optimization
        level of ONNX Runtime."""
        for level, live_session in iter_sessions(model):
            step = "file" if level == "disabled" else "optimised file"
            for judge in self._judges:
                _check_unchanged(
                    judge, step, [*run_sample(live_session, judge.inputs, judge.name).values()]
                )


def _check_unchanged(judge: Judge, step: str, results: Sequence[Any]) -> None:
    """Raise `StepChangedError` if a result differs from that of the traced graph.

    It differs if its shape or dtype is another one, or if an element is wrong or open.

    Arguments:
        judge: the judge of results on one sample.
        step: the step to name in the error.
        results: the results after the step.
    """
    for i, (result, expected) in enumerate(zip(results, judge.run(0), strict=True)):
        expected_pairs = (
            unpack_complex(expected, np.ndim(result)) if is_complex(result.dtype) else expected
        )
        actual = np.asarray(to_graph_array(result))
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            actual_type, expected_type = (f"{x.dtype}{x.shape}" for x in (actual, expected))
            raise StepChangedError(step, f"output {i} is {actual_type}, not {expected_type}")
        judgement = judge.judge(i, actual, np.asarray(expected_pairs))
        for position in first_position(judgement.is_wrong) or first_position(judgement.is_open):
            numbers = f"{actual[position]}, not {expected[position]}"
            location = f"output {i} at {list(position)}"
            suffix = f"; it is open: {OPEN_TEXT}" if judgement.is_open[position] else ""
            raise StepChangedError(step, f"{location} is {numbers}, on {judge.name} inputs{suffix}")
