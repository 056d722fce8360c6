"""Faults that are planted into outputs and graphs of programs, to test the judge of files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Timer
from typing import Any

import jax
import numpy as np
import onnxruntime as ort

import converter
from converter.errors import ConverterError
from converter.ir.complex_pairs import pack_complex
from converter.verify.checking import Case as JudgedCase
from converter.verify.checking import OutputComparison, draw_cases
from converter.verify.sessions import run
from tests.conformance import Case, inputs
from zoo.common.runtime import ERRORS

Numbers = np.ndarray[Any, Any]
Fault = Callable[[Numbers, np.random.Generator], Numbers | None]

ABOVE = 64
"""Smallest size of a fault that counts, as a multiple of JAX's own error.

That error is the difference from float64, or a rounding error if it is larger.
"""

SECONDS = 3
"""Time limit in seconds for a run of a file with a fault."""


def _element(change: Callable[[Any], Any], choose: Callable[[Numbers], Numbers]) -> Fault:
    """Return a fault that changes one random element of those that ``choose`` is true for."""

    def fault(outputs: Numbers, rng: np.random.Generator) -> Numbers | None:
        indices = np.argwhere(choose(outputs))
        if not len(indices):
            return None
        faulty, index = outputs.copy(), tuple(rng.choice(indices))
        faulty[index] = change(faulty[index])
        return faulty

    return fault


def _row(outputs: Numbers, rng: np.random.Generator) -> Numbers | None:
    """Replace one row by the next one; return None if there is no next row."""
    if not outputs.ndim or len(outputs) < 2:
        return None
    faulty, row = outputs.copy(), rng.integers(len(outputs) - 1)
    faulty[row] = outputs[row + 1]
    return faulty


def _is_float(x: Numbers) -> bool:
    return x.dtype.kind not in "biu"


def _is_finite(x: Numbers) -> Numbers:
    return np.isfinite(x.astype(np.float64)) if _is_float(x) else np.zeros(x.shape, bool)


def _is_nonzero(x: Numbers) -> Numbers:
    return _is_finite(x) & (x != 0)


OUTPUT_FAULTS: Mapping[str, Fault] = {
    "infinity for a number": _element(lambda v: np.inf, _is_finite),
    "a number for infinity": _element(lambda v: 1.0, lambda x: np.isinf(x.astype(float))),
    "NaN for a number": _element(lambda v: np.nan, _is_finite),
    "a number for NaN": _element(lambda v: 1.0, lambda x: np.isnan(x.astype(float))),
    "the sign": _element(lambda v: -v, _is_nonzero),
    "1e-3 of an element": _element(lambda v: v * (1 + 1e-3), _is_nonzero),
    "one element": _element(lambda v: v + 1 if v.dtype != bool else ~v, lambda x: x == x),
    "a row is the next": _row,
    "a constant": lambda x, rng: np.full_like(x, x.flat[0]) if x.size > 1 else None,
}
"""By kind: a function that returns an output with a fault, or None if it cannot have one."""

NEIGHBOURS = (
    *(("Add", "Sub"), ("Mul", "Div"), ("Less", "LessOrEqual"), ("Greater", "GreaterOrEqual")),
    *(
        ("Floor", "Ceil"),
        ("Round", "Floor"),
        ("ReduceSum", "ReduceMax"),
        ("ReduceMin", "ReduceMax"),
    ),
    *(("ReduceMean", "ReduceSum"), ("ReduceProd", "ReduceSum"), ("Max", "Min"), ("Sin", "Cos")),
    *(("Exp", "Tanh"), ("Sinh", "Sin"), ("Cosh", "Exp"), ("Sigmoid", "Tanh"), ("Log", "Sqrt")),
    *(("And", "Or"), ("Xor", "Or"), ("ArgMax", "ArgMin"), ("Neg", "Abs"), ("Relu", "Abs")),
    *(("Erf", "Tanh"), ("Sign", "Neg"), ("Atan", "Tanh"), ("Tan", "Sin"), ("Asinh", "Atan")),
    *(("IsNaN", "IsInf"), ("Reciprocal", "Sqrt"), ("BitwiseAnd", "BitwiseOr"), ("Gelu", "Tanh")),
    *(("BitwiseXor", "BitwiseOr"), ("AveragePool", "MaxPool"), ("Softmax", "LogSoftmax")),
)
SWAPS = {two: one for one, two in NEIGHBOURS} | dict(NEIGHBOURS)
"""By operator: another one with the same operands and the same shape and dtype of the result."""


NOTHING = "nothing"
"""The kind of a file without a fault, which the judge must accept."""


@dataclass(frozen=True)
class Planted:
    """The result of one planted fault.

    ``seen`` is whether it changes a number by more than rounding, and ``found`` whether the judge
    finds it.
    """

    program: str
    kind: str
    seen: bool
    found: bool

    @property
    def is_misjudged(self) -> bool:
        """Whether the judge missed a visible fault, or rejected a file without a fault."""
        return self.found if self.kind == NOTHING else self.seen and not self.found


def planted(name: str, program: Case, count: int = 1) -> Iterator[Planted]:
    """Plant faults into the outputs of a program and into its graph, one at a time.

    In the graph, ``count`` nodes of each operator are replaced. Yield the result of each fault.
    """
    with jax.enable_x64(program.x64):
        export, given_inputs = program.export(), None
        if any(isinstance(spec, np.ndarray) for spec in program.specs):
            given_inputs = inputs(program.specs)
        cases, _ = draw_cases(export, program.call, given_inputs)
        outputs = [*map(partial(_results, converter.session(export)), cases)]
        yield Planted(name, NOTHING, False, any(map(_is_blamed, outputs)))
        for kind, seen, found in (
            *_in_outputs(cases[0]),
            *_in_graph(export, cases, outputs, count),
        ):
            yield Planted(name, kind, seen, found)


def _results(session: ort.InferenceSession, case: JudgedCase) -> list[OutputComparison]:
    return list(case.compare_run(run(session, case.judge.inputs)))


def _is_blamed(results: Iterable[OutputComparison]) -> bool:
    return any((output.judgement.is_wrong | output.judgement.is_open).any() for output in results)


def _in_outputs(case: JudgedCase) -> Iterator[tuple[str, bool, bool]]:
    """Yield the kind of each fault of an output, and whether it is seen and found."""
    for index, leaf in enumerate(case.expected):
        outputs = np.asarray(pack_complex(leaf))
        for kind, fault in OUTPUT_FAULTS.items():
            rng = np.random.default_rng(index)
            if outputs.size and (faulty := fault(outputs, rng)) is not None:
                judgement = case.judge.judge(index, faulty, np.asarray(leaf))
                found = bool((judgement.is_wrong | judgement.is_open).any())
                yield kind, _differs(case, index, faulty, outputs), found


def _in_graph(
    export: converter.Export,
    cases: list[JudgedCase],
    outputs: list[list[OutputComparison]],
    count: int,
) -> Iterator[tuple[str, bool, bool]]:
    """Yield the kind of each fault of a node, and whether it is seen and found.

    ``outputs`` has the comparisons of the file without a fault, by case.
    """
    counts: dict[str, int] = {}
    for node in list(export.model.graph.all_nodes()):
        kind = node.op_type
        if kind not in SWAPS or node.domain or counts.get(kind, 0) >= count:
            continue
        counts[kind] = counts.get(kind, 0) + 1
        node.op_type = SWAPS[kind]
        try:
            session = _with_time_limit(converter.session(export.model))
            seen = found = False
            for case, unchanged in zip(cases, outputs, strict=True):
                results = _results(session, case)
                found = _is_blamed(results)
                if found:
                    break
                pairs = enumerate(zip(results, unchanged, strict=True))
                seen = seen or any(_differs(case, i, a.actual, b.actual) for i, (a, b) in pairs)
            yield f"{kind} as {SWAPS[kind]}", seen or found, found
        except (*ERRORS, ConverterError):
            pass  # a file with this fault does not run
        finally:
            node.op_type = kind


def _with_time_limit(session: ort.InferenceSession) -> ort.InferenceSession:
    """Return a session whose runs end after the time limit, since loops may be endless."""
    options = ort.RunOptions()
    timer = Timer(SECONDS, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    run = session.run_with_ort_values
    session.run_with_ort_values = lambda names, feeds, _: run(names, feeds, options)
    return session


def _differs(case: JudgedCase, index: int, faulty: Numbers, outputs: Numbers) -> bool:
    """Return whether a fault is larger than ``ABOVE`` times JAX's own error in any element."""
    if outputs.dtype.kind in "biu":
        return not np.array_equal(faulty, outputs)
    a, b = faulty.astype(np.float64), outputs.astype(np.float64)
    exact_outputs, magnitude = case.judge._float64_outputs, abs(b)
    exact = (case.judge.run(1) if exact_outputs is None else exact_outputs)[index].astype(
        np.float64
    )
    # Both parts of a complex number have the rounding error of the larger part.
    if case.expected[index].dtype.kind == "c":
        magnitude = np.broadcast_to(magnitude.max(-1, keepdims=True), magnitude.shape)
    with np.errstate(all="ignore"):
        noise = np.maximum(abs(b - exact), float(jax.numpy.finfo(outputs.dtype).eps) * magnitude)
        noise = np.where(np.isfinite(noise), noise, 0)
        magnitude = np.where(np.isfinite(a) & np.isfinite(b), abs(a - b), np.inf)
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    return bool((~is_same & (magnitude > ABOVE * noise + 1e-30)).any())
