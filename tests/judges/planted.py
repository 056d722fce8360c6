"""Faults that are planted into outputs and graphs, and whether the judge of files finds them."""

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
"""So many times what JAX is off itself, by float64 and by rounding, a fault has to be to count."""

SECONDS = 3
"""How long a file with a fault may run."""


def _element(change: Callable[[Any], Any], chosen: Callable[[Numbers], Numbers]) -> Fault:
    """One element of those that are chosen becomes another."""

    def fault(right: Numbers, rng: np.random.Generator) -> Numbers | None:
        places = np.argwhere(chosen(right))
        if not len(places):
            return None
        wrong, place = right.copy(), tuple(rng.choice(places))
        wrong[place] = change(wrong[place])
        return wrong

    return fault


def _row(right: Numbers, rng: np.random.Generator) -> Numbers | None:
    """One row is the next one."""
    if not right.ndim or len(right) < 2:
        return None
    wrong, row = right.copy(), rng.integers(len(right) - 1)
    wrong[row] = right[row + 1]
    return wrong


def _is_float(x: Numbers) -> bool:
    return x.dtype.kind not in "biu"


def _numbers(x: Numbers) -> Numbers:
    return np.isfinite(x.astype(np.float64)) if _is_float(x) else np.zeros(x.shape, bool)


def _not_zero(x: Numbers) -> Numbers:
    return _numbers(x) & (x != 0)


OUTPUT_FAULTS: Mapping[str, Fault] = {
    "infinity for a number": _element(lambda v: np.inf, _numbers),
    "a number for infinity": _element(lambda v: 1.0, lambda x: np.isinf(x.astype(float))),
    "NaN for a number": _element(lambda v: np.nan, _numbers),
    "a number for NaN": _element(lambda v: 1.0, lambda x: np.isnan(x.astype(float))),
    "the sign": _element(lambda v: -v, _not_zero),
    "1e-3 of an element": _element(lambda v: v * (1 + 1e-3), _not_zero),
    "one element": _element(lambda v: v + 1 if v.dtype != bool else ~v, lambda x: x == x),
    "a row is the next": _row,
    "a constant": lambda x, rng: np.full_like(x, x.flat[0]) if x.size > 1 else None,
}

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
"""Operators that take the same operands and give results of the same shape and type."""


NOTHING = "nothing"
"""The kind of fault that a right file has, which the judge may not find."""


@dataclass(frozen=True)
class Planted:
    """What became of a fault: ``seen`` if it changes a number by more than rounding at all."""

    program: str
    kind: str
    seen: bool
    found: bool

    @property
    def is_misjudged(self) -> bool:
        """A fault that is not found, or a right file that is blamed."""
        return self.found if self.kind == NOTHING else self.seen and not self.found


def planted(name: str, program: Case, each: int = 1) -> Iterator[Planted]:
    """Plant faults into a program's outputs, and into so many nodes of each operator."""
    with jax.enable_x64(program.x64):
        export, given = program.export(), None
        if any(isinstance(spec, np.ndarray) for spec in program.specs):
            given = inputs(program.specs)
        cases, _ = draw_cases(export, program.call, given)
        right = [*map(partial(_results, converter.session(export)), cases)]
        yield Planted(name, NOTHING, False, any(map(_is_blamed, right)))
        for kind, seen, found in (*_in_outputs(cases[0]), *_in_graph(export, cases, right, each)):
            yield Planted(name, kind, seen, found)


def _results(live: ort.InferenceSession, case: JudgedCase) -> list[OutputComparison]:
    return list(case.compare_run(run(live, case.judge.inputs)))


def _is_blamed(results: Iterable[OutputComparison]) -> bool:
    return any((each.judgement.is_wrong | each.judgement.is_open).any() for each in results)


def _in_outputs(case: JudgedCase) -> Iterator[tuple[str, bool, bool]]:
    for index, leaf in enumerate(case.expected):
        right = np.asarray(pack_complex(leaf))
        for kind, fault in OUTPUT_FAULTS.items():
            rng = np.random.default_rng(index)
            if right.size and (wrong := fault(right, rng)) is not None:
                judgement = case.judge.judge(index, wrong, np.asarray(leaf))
                found = bool((judgement.is_wrong | judgement.is_open).any())
                yield kind, _differs(case, index, wrong, right), found


def _in_graph(
    export: converter.Export,
    cases: list[JudgedCase],
    right: list[list[OutputComparison]],
    each: int,
) -> Iterator[tuple[str, bool, bool]]:
    done: dict[str, int] = {}
    for node in list(export.model.graph.all_nodes()):
        kind = node.op_type
        if kind not in SWAPS or node.domain or done.get(kind, 0) >= each:
            continue
        done[kind] = done.get(kind, 0) + 1
        node.op_type = SWAPS[kind]
        try:
            live = _ending(converter.session(export.model))
            seen = found = False
            for case, unchanged in zip(cases, right, strict=True):
                results = _results(live, case)
                found = found or _is_blamed(results)
                pairs = enumerate(zip(results, unchanged, strict=True))
                seen = seen or any(_differs(case, i, a.actual, b.actual) for i, (a, b) in pairs)
            yield f"{kind} as {SWAPS[kind]}", seen or found, found
        except (*ERRORS, ConverterError):
            pass  # such a file does not run
        finally:
            node.op_type = kind


def _ending(live: ort.InferenceSession) -> ort.InferenceSession:
    """A session whose runs end after some seconds: loops may go on for ever."""
    options = ort.RunOptions()
    timer = Timer(SECONDS, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    run = live.run_with_ort_values
    live.run_with_ort_values = lambda names, feeds, _: run(names, feeds, options)
    return live


def _differs(case: JudgedCase, index: int, wrong: Numbers, right: Numbers) -> bool:
    """Whether a fault is larger than what JAX is off itself, wherever it is largest."""
    if right.dtype.kind in "biu":
        return not np.array_equal(wrong, right)
    a, b = wrong.astype(np.float64), right.astype(np.float64)
    truths, size = case.judge._float64_outputs, abs(b)
    truth = (case.judge.run(1) if truths is None else truths)[index].astype(np.float64)
    if case.expected[index].dtype.kind == "c":  # a part rounds as the larger one does
        size = np.broadcast_to(size.max(-1, keepdims=True), size.shape)
    with np.errstate(all="ignore"):
        own = np.maximum(abs(b - truth), float(jax.numpy.finfo(right.dtype).eps) * size)
        own = np.where(np.isfinite(own), own, 0)
        size = np.where(np.isfinite(a) & np.isfinite(b), abs(a - b), np.inf)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return bool((~same & (size > ABOVE * own + 1e-30)).any())
