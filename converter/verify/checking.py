"""Is a file right? ONNX Runtime against JAX, by element, at every level of its optimiser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from converter.errors import CheckError, ConverterError
from converter.frontend.array_forms import is_key, key_numbers
from converter.frontend.diagnostics import RAISED
from converter.frontend.interface import Interface
from converter.frontend.trace import trace
from converter.ir import Graph
from converter.ir.complex_pairs import packed
from converter.model.results import Export
from converter.model.verdict import (
    Difference,
    Elements,
    Errors,
    Level,
    Verdict,
    compare,
    worse,
)
from converter.verify.elements import Judge, Judgement, first
from converter.verify.noise import Noise, resamples
from converter.verify.samples import DISTRIBUTIONS, refuse_forbidden
from converter.verify.sessions import Model, run_judged, sessions
from converter.verify.steering import BASIC, Coverage, coverage_of, steered_samples


def check(
    model: Model,
    fn: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    *,
    seed: int = 0,
    accept_open: Collection[str] = (),
) -> Verdict:
    """Compare what a model computes in ONNX Runtime with what ``fn`` does in JAX.

    Integers and booleans have to be equal. A float may be off by what rounding at every step of
    what JAX computes can do to that very element (``converter.verify.noise``); where ``fn`` is no
    function that JAX can trace, by what rounding does to the largest element of its array. Where
    rounding can lead to infinity or NaN, an element is right if it is as near as JAX to what ``fn``
    gives in float64; where that cannot be said it is open, and the file does not pass.
    Complex numbers are compared as the model has them, both parts on a last axis of two.

    Args:
        model: an export, an onnx_ir model, a path, or a session, which is run as it is; everything
            else is run at every level of ONNX Runtime's optimiser, and more than once, since memory
            that a kernel does not set is not the same twice.
        fn: called with the inputs; its leaves are compared with the outputs in order.
        inputs: arrays as the function takes them, or pytrees of them; without them several are
            drawn (ordinary, repeated, zero and large numbers, indices within bounds, at the
            extremes of named dimensions for which evaluations take at most 4 GiB), which takes an
            export. A small function gets at least 32 samples. Where the program has branches,
            loops or bounds of indices, up to 256 further inputs are tried, and those that take a
            branch, a number of turns or a side of a bound for the first time are samples too.
        seed: of the inputs that are drawn.
        accept_open: names of outputs whose open elements are accepted.

    Returns:
        A dictionary from outputs to errors, with ``passed``, ``differences`` and ``elements``;
        ``untaken`` has a sentence for each branch, turn and bound that no sample took.

    Raises:
        CheckError: inputs or outputs do not fit the model, JAX cannot evaluate the function, ONNX
            Runtime cannot run the model, or two calls of the function differ.
    """
    cases, coverage = judged_cases(model, fn, inputs, seed, accept_open)
    verdict = Verdict(coverage.tried, coverage.untaken())
    for level, live in sessions(model):
        for case in (*cases, cases[0]):
            got = run_judged(live, case.judge.inputs, case.judge.name)
            with _evaluating(case.judge.name, case.judge.inputs):
                _note(case.compared(got), case, level, verdict)
    if not verdict.passed:
        _refuse_impure(cases[0])
    return verdict


def judged_cases(
    model: Model,
    fn: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    seed: int = 0,
    accept_open: Collection[str] = (),
) -> tuple[list[Case], Coverage]:
    """Return inputs of a model with what JAX makes of them, and the branches that they take."""
    interface = model.interface if isinstance(model, Export) else Interface()
    call = interface.called(fn)
    run = call
    if inputs is not None:
        drawn = [("given", interface.taken(jax.tree.leaves(list(inputs))))]
        if isinstance(model, Export):
            refuse_forbidden(model.graph, drawn[0][1])
        traced, noise = _reference(model, call, drawn[0][1])
        params = noise.params if noise is not None else None
        coverage = coverage_of(traced, params, [drawn[0][1]])
    elif isinstance(model, Export):
        traced, noise = _reference(model, call, [])
        params = noise.params if noise is not None else None
        assert traced is not None
        drawn, coverage = steered_samples(
            model.graph, traced, params, seed, more=not model.report.fails_verification
        )
        if len(drawn) > BASIC and any(node.bodies for node in traced.nodes):
            run = _compiled(call)
    else:
        raise CheckError("only an export says what its inputs are: pass inputs")
    cases = list[Case]()
    for index, (name, arrays) in enumerate(drawn):
        with _evaluating(name, arrays):
            again = partial(_outputs_of, call, arrays)
            expected = _outputs_of(call if index < len(DISTRIBUTIONS) else run, arrays)
            judge = Judge(noise, arrays, name, call)
            cases.append(Case(judge, expected, accept_open, again))
    return cases, coverage


def _outputs_of(call: Callable[..., Any], arrays: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of a function for arrays."""
    results = call(*jax.device_put(list(arrays)))  # `jnp.asarray` would be compiled
    return [_numbers(x) for x in jax.tree.leaves(results)]


def _compiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled as one, or itself if JAX cannot trace it.

    Called step by step, a function with loops compiles each of them anew in every call.
    """
    compiled = jax.jit(call)

    def run(*arrays: Any) -> Any:
        try:
            return compiled(*arrays)
        except (*RAISED, ConverterError):
            return call(*arrays)

    return run


def _refuse_impure(case: Case) -> None:
    """**Raises** `CheckError` where another call of a function gives another answer."""
    pairs = zip(case.expected, case.again(), strict=True)
    same = [x.tobytes() == y.tobytes() for x, y in pairs]
    if not all(same):
        raise CheckError(
            f"two calls of the function with the same inputs differ in output {same.index(False)}: "
            "it depends on something else, such as a counter, a clock or Python's random numbers. "
            "Give that as an input, a jax.random key for one, and convert again"
        )


@contextmanager
def _evaluating(name: str, inputs: Sequence[Any]) -> Iterator[None]:
    """What XLA and numpy raise, memory that is not there for one, in a sentence."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        shapes = ", ".join(str(list(np.shape(x))) for x in inputs)
        why = str(error).partition("\n")[0]
        raise CheckError(f"JAX cannot evaluate it on {name} inputs of {shapes}: {why}") from error


@dataclass(frozen=True)
class OutputComparison:
    """An output of one run: its errors, and the elements that are wrong or open."""

    output: str
    got: np.ndarray
    expected: np.ndarray
    errors: Errors
    judgement: Judgement


@dataclass
class Case:
    """Inputs with what JAX makes of them, and the last run that was compared with that.

    Open elements of outputs in ``accepted`` are not held against the file. ``again`` calls the
    function once more, step by step; ``expected`` may be what it gives compiled as one, where XLA
    rounds in other places. A difference counts if it is there in both.
    """

    judge: Judge
    expected: list[np.ndarray]
    accepted: Collection[str]
    again: Callable[[], list[np.ndarray]]
    last: list[OutputComparison] = field(default_factory=list)

    def compared(self, got: dict[str, np.ndarray]) -> list[OutputComparison]:
        """Comparison of one run with JAX; the same bytes as last time are judged once."""
        if len(got) != len(self.expected):
            raise CheckError(
                f"the model has {len(got)} outputs, the function gave {len(self.expected)}"
            )
        same = [
            x.tobytes() == y.got.tobytes() for x, y in zip(got.values(), self.last, strict=False)
        ]
        if not (self.last and all(same)):
            self.last = self._all_compared(got)
            if any(each.judgement.wrong.any() or each.judgement.open.any() for each in self.last):
                self.expected = self.again()
                self.last = self._all_compared(got)
        return self.last

    def _all_compared(self, got: dict[str, np.ndarray]) -> list[OutputComparison]:
        return [self._compared(i, name, x) for i, (name, x) in enumerate(got.items())]

    def _compared(self, i: int, output: str, got: np.ndarray) -> OutputComparison:
        expected = _canonical(self.expected[i], got.dtype)
        errors = compare(got, expected)  # which refuses other shapes and types
        judgement, own = self.judge.judge(i, got, expected), packed(expected)
        is_accepted = judgement.either | (judgement.open & (output in self.accepted))
        if is_accepted.any():
            errors = compare(np.where(is_accepted, own, got), own)
        return OutputComparison(output, got, own, errors, judgement)


def _note(results: list[OutputComparison], case: Case, level: Level, to: Verdict) -> None:
    """Write what one run gave into a verdict."""
    for each in results:
        name, judgement, sample = each.output, each.judgement, case.judge.name
        to[name] = worse(to.get(name), each.errors)
        left = int(judgement.open.sum())
        counted = Elements(each.got.size - left, int(judgement.either.sum()), left)
        to.elements[name] = to.elements.get(name, Elements()) + counted
        masks = [(judgement.wrong, False)]
        masks += [(judgement.open, True)] if name not in case.accepted else []
        for mask, is_open in masks:
            for place in first(mask):
                pair = str(each.got[place]), str(each.expected[place])
                found = Difference(sample, level, name, place, *pair, is_open, case.judge.inputs)
                to.differences.append(found)


def _numbers(leaf: Any) -> np.ndarray:
    """Of an array, or of the number that JAX would make an array of."""
    is_number = isinstance(leaf, bool | int | float | complex)
    return np.asarray(jax.device_put(leaf) if is_number else key_numbers(leaf))


def _canonical(expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What numpy has in 64 bits as JAX returns it, in 32 unless it is told otherwise."""
    is_it = expected.dtype != dtype and jax.dtypes.canonicalize_dtype(expected.dtype) == dtype
    return expected.astype(dtype) if is_it else expected


def _reference(
    model: Model, fn: Callable[..., Any], inputs: Sequence[Any]
) -> tuple[Graph | None, Noise | None]:
    """Return the traced graph that a model is compared with, and the noise of its roundings.

    An export is compared with what it was traced from, another model with the function itself.
    There is no graph if JAX cannot trace the function, and no noise if the graph does not depend on
    its inputs or if parameters have no values.
    """
    if isinstance(model, Export):
        traced = model.retrace()
        is_whole = all(v.bound is not None or v.program for v in model.graph.params)
        return traced, Noise(traced.clone, resamples(model.graph)) if is_whole else None
    try:
        traced = trace(fn, [x if is_key(x) else np.asarray(x) for x in inputs])
    except (*RAISED, ConverterError):
        return None, None
    uses = traced.uses()
    is_constant = not any(id(v) in uses for v in traced.inputs)
    return traced, None if is_constant else Noise(traced.clone)
