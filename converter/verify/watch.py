"""The first step of a conversion after which a number is another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from converter.errors import CheckError
from converter.frontend.array_forms import graph_numbers
from converter.ir import Graph
from converter.ir.complex_pairs import is_complex, unpacked
from converter.ir.evaluation import evaluate
from converter.ir.op import Op
from converter.model.verdict import OPEN
from converter.pipeline.passes import distinct
from converter.verify.elements import Judge, first
from converter.verify.noise import Noise
from converter.verify.sessions import run_judged, sessions

MALFORMED = (AssertionError, IndexError, KeyError, TypeError, ValueError)
"""What evaluating a graph raises whose parts do not fit."""


@dataclass(frozen=True)
class Change:
    """The name of a step and what is wrong after it.

    It is a pass, the ``trace`` before all of them, or at last the ``file``, which may be wrong as
    ONNX Runtime's optimiser leaves it only (``optimised file``). An element that is open, because
    nothing says whether roundings explain it, counts as wrong.
    """

    step: str
    what: str

    def __str__(self) -> str:
        return f"after '{self.step}', {self.what}"


class StepChangedError(CheckError):
    """A step of a conversion changed a number, or left what it should not."""

    def __init__(self, step: str, what: str) -> None:
        self.change = Change(step, what)
        super().__init__(str(self.change))


class Watch:
    """Evaluates the graph after each pass. Raises ``StepChangedError`` if one changed a number.

    A pass may change a number by what rounding does (``converter.verify.noise``), not more. It may
    not bring back an operation that an earlier one has declared gone.
    """

    def __init__(
        self,
        retrace: Callable[[], Graph],
        samples: Sequence[tuple[str, Sequence[Any]]],
        function: Callable[..., Any],
    ) -> None:
        noise = Noise(retrace)
        self._params = noise.params
        self._function = function
        self._judges = [Judge(noise, inputs, name, function) for name, inputs in samples]
        self._gone: set[Op] = set()

    def __call__(self, name: str, graph: Graph) -> None:
        """After a pass."""
        for step in distinct():
            self._gone |= step.eliminates if step.name == name else frozenset()
        back = sorted({node.op.name for node in graph.walk() if node.op in self._gone})
        if back:
            raise StepChangedError(name, f"there is a '{back[0]}', of which none should be left")
        for judge in self._judges:
            try:
                results = evaluate(graph, judge.inputs, self._params)
            except MALFORMED as error:
                what = f"the graph does not evaluate: {type(error).__name__}: {error}"
                raise StepChangedError(name, what) from error
            _unchanged(judge, name, results)

    def trace(self) -> None:
        """Whether the graph that was traced means what the function does."""
        for judge in self._judges:
            results = self._function(*jax.device_put(judge.inputs))
            _unchanged(judge, "trace", jax.tree.leaves(results))

    def file(self, model: Any) -> None:
        """After the model is written; at every level of ONNX Runtime's optimiser."""
        for level, live in sessions(model):
            how = "file" if level == "disabled" else "optimised file"
            for judge in self._judges:
                _unchanged(judge, how, [*run_judged(live, judge.inputs, judge.name).values()])


def _unchanged(judge: Judge, step: str, results: Sequence[Any]) -> None:
    """**Raises** `StepChangedError` if a number differs from that of the traced graph."""
    for i, (result, expected) in enumerate(zip(results, judge.run(0), strict=True)):
        judged = unpacked(expected, np.ndim(result)) if is_complex(result.dtype) else expected
        got = np.asarray(graph_numbers(result))
        if (got.shape, got.dtype) != (expected.shape, expected.dtype):
            own, other = (f"{x.dtype}{x.shape}" for x in (got, expected))
            raise StepChangedError(step, f"output {i} is {own}, not {other}")
        judgement = judge.judge(i, got, np.asarray(judged))
        for place in first(judgement.wrong) or first(judgement.open):
            numbers = f"{got[place]}, not {expected[place]}"
            at = f"output {i} at {list(place)}"
            why = f"; it is open: {OPEN}" if judgement.open[place] else ""
            raise StepChangedError(step, f"{at} is {numbers}, on {judge.name} inputs{why}")
