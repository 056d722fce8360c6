"""Programs of one operation, lowered and run in ONNX Runtime, beside what JAX makes of them."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np

from converter.api.conversion import build_export
from converter.canonicalize import ELIMINATED_OPS, RULES
from converter.errors import UnsupportedError
from converter.ir import Graph, Value, dims, make_node, ops
from converter.ir.dtypes import is_float
from converter.ir.nodes import Meaning
from converter.ir.op import Op
from converter.ir.rewrite import drop_dead, sweep
from converter.lower.lowerings import BUILTIN_RULES, find_lowering
from converter.model.verdict import Level
from converter.opsets import OPSETS
from converter.pipeline import passes
from converter.pipeline.settings import PassSettings
from converter.targets.schemas import operator_name
from converter.verify.sessions import run, session
from tests.conformance import NEWEST
from tests.converter.test_edges import units
from tests.fuzz.errors import IN_ONNX_RUNTIME
from tests.rules.programs import Drawn, Expr
from tests.rules.prove import numbers_of

T = TypeVar("T")

TRIED = tuple(opset for opset in (17, 18, 20, 21, 23, 24, 26) if opset <= NEWEST)
"""The opsets that rules are tried at: those that brought operators."""

Types = Callable[..., Sequence[tuple[Any, Any]]]


def like_first(x: Value, *_: Value) -> list[tuple[Any, Any]]:
    return [(x.shape, x.dtype)]


@dataclass(frozen=True)
class Applied:
    """An operation as a node of its own, for what no jaxpr has.

    ``types`` gives the shapes and dtypes of the outputs for the operands' values.
    """

    op: Op
    operands: Sequence[Expr]
    params: Mapping[str, Any] = field(default_factory=dict)
    types: Types = like_first
    meaning: Meaning | None = None


@dataclass(frozen=True)
class Result:
    """What is computed, and another computation that the file may agree with in its place.

    JAX rounds every step of a formula of half precision, a file may round once.
    """

    made: Expr | Applied
    once: Expr | Applied | None = None


Program = Sequence[Result]
LoweringDraw = Callable[[Drawn], Program]


@dataclass(frozen=True)
class LoweringCase:
    """How programs of an operation are drawn, and compared.

    A float may be off by so many ``units`` in its last place; in that of 1 at least if ``of_one``,
    and in that of the output's largest number if ``of_largest``. Zeros have JAX's signs where the
    operation ``keeps_signs``. A ``refusal`` is part of what a refused program is told.
    By default so many ``programs`` are tried.
    """

    draw: LoweringDraw
    units: float = 0
    of_largest: bool = False
    of_one: bool = False
    keeps_signs: bool = False
    programs: int = 1
    refusal: str = ""


@dataclass(frozen=True)
class Way:
    """How a program is converted: with all passes, or with those alone that a file needs."""

    opset: int
    is_strict: bool
    is_bare: bool

    def settings(self) -> PassSettings:
        return PassSettings(opset=self.opset, strict=self.is_strict, fuse=False)


LEVELS: tuple[Level, ...] = ("disabled", "all")

SPELLED = (ops.eq_to, ops.le_to, ops.lt_to, ops.reshape)
"""Operations of which JAX has more than one spelling, or which floats alone have at last."""

LOSE_SIGNS = (ops.select_n, ops.clamp, ops.max, ops.min)
"""Operations whose results may have another zero."""

NEEDED = ("decompose", "windows", "deviations", "arithmetic", "quirks", "dtype fallback")
"""Passes without which a graph cannot be written, or is not exact."""


def opsets_of(op: Op, since: int) -> list[int]:
    """The opsets at which the rule of that age is the operation's newest."""
    newer = [other for other in BUILTIN_RULES[op] if other > since]
    return [o for o in TRIED if since <= o < min(newer, default=OPSETS[-1] + 1)]


def drawn_way(d: Drawn, op: Op, since: int) -> Way:
    return Way(d.pick(opsets_of(op, since)), d.chance(), d.chance())


@dataclass
class Seeded(Drawn):
    """Chooses by a seed: hypothesis takes the simplest programs first, which look alike."""

    rng: random.Random = field(default_factory=random.Random)

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def chance(self) -> bool:
        return self.rng.random() < 0.5

    def order(self, rank: int) -> tuple[int, ...]:
        return tuple(self.rng.sample(range(rank), rank))


# ------------------------------------------------------------------------------------- the graph


def graph_of(drawn: Drawn, made: Sequence[Expr | Applied]) -> Graph:
    """The traced program; operations that no jaxpr has become nodes behind their operands."""
    operands = [list(m.operands) if isinstance(m, Applied) else [m] for m in made]
    graph = drawn.graph(*(x for group in operands for x in group))
    values, outputs = iter(graph.outputs), list[Value]()
    for each, group in zip(made, operands, strict=True):
        inputs = [next(values) for _ in group]
        if not isinstance(each, Applied):
            outputs += inputs
            continue
        node = make_node(each.op, inputs, each.types(*inputs), each.params, meaning=each.meaning)
        graph.nodes.append(node)
        outputs += node.outputs
    graph.outputs = outputs
    graph.output_names = [f"y{i}" for i in range(len(outputs))]
    return graph


def _has_empty(graph: Graph) -> bool:
    """Whether a value has no elements: operations on such are canonicalized away."""
    values = (v for node in graph.walk() for v in (*node.inputs, *node.outputs))
    return any(dims.is_same_dim(size, 0) for v in values for size in v.shape)


def prepare(graph: Graph, way: Way, settings: PassSettings) -> None:
    """Bring a graph into the form that rules take."""
    if not way.is_bare or _has_empty(graph):
        passes.run_passes(graph, settings)
        return
    forms = {op: rule for op, rule in RULES.items() if op in ELIMINATED_OPS or op in SPELLED}
    rows = [row for row in passes.distinct_passes() if row.name in NEEDED]
    for row in rows:
        row.run(graph, settings)
        for _ in range(2):
            sweep(graph, forms)
        drop_dead(graph)


# ------------------------------------------------------------------------------------- the proof

Reached = set[tuple[Op, int]]
"""Operations that were lowered, each with the age of the rule that did it."""


def rules_of(graph: Graph, opset: int) -> Reached:
    owners = ((node.op, find_lowering(node.op, opset)) for node in graph.walk())
    return {
        (op, since)
        for op, owner in owners
        for since, rule in BUILTIN_RULES.get(op, {}).items()
        if rule is owner
    }


Wrap = Callable[[Callable[[], Any]], Any]
"""Runs the lowering, and may watch it."""


def call(fn: Callable[[], Any]) -> Any:
    return fn()


def _are_taken(graph: Graph, settings: PassSettings) -> bool:
    """Whether the target has the operators of all composites, which are spelled out otherwise."""
    composites = [node for node in graph.walk() if node.op.structure]
    return all(settings.takes(operator_name(node.op), node.out.dtype) for node in composites)


def is_right(
    case: LoweringCase, op: Op, since: int, watch: Wrap, reached: Reached, drawn: Drawn
) -> bool:
    """Whether the program has the rule; **raises** AssertionError if its file is not JAX's."""
    program = case.draw(drawn)
    way = drawn_way(drawn, op, since)
    settings = way.settings()
    graph = graph_of(drawn, [result.made for result in program])
    if not _are_taken(graph, settings):
        way = replace(way, is_bare=False)
    once = graph_of(drawn, [result.once or result.made for result in program])
    old, text = graph.clone(), f"{way}\n{graph}\nof {drawn.inputs}, {drawn.params}"
    try:
        prepare(graph, way, settings)
        found = rules_of(graph, way.opset)
        export = watch(partial(build_export, graph, settings, lambda: old))
    except UnsupportedError as error:
        assert case.refusal and case.refusal in str(error), f"{error}\n{text}"
        return True
    reached |= found
    text += f"\nbecomes\n{graph}"
    wanted = numbers_of(old, drawn)
    second = numbers_of(once, drawn) if any(r.once for r in program) else wanted
    signs = case.keeps_signs and not any(node.op in LOSE_SIGNS for node in old.walk())
    is_known = bool(settings.deviations) and not is_tame(old, drawn, wanted)
    for level in LEVELS:
        try:
            got = run(session(export, level=level), drawn.inputs)
        except IN_ONNX_RUNTIME as error:
            raise AssertionError(f"at level {level}: {error}\n{text}") from None
        for i, (numbers, right, other) in enumerate(zip(got.values(), wanted, second, strict=True)):
            complaint = differs(case, numbers, right, other, signs)
            assert is_known or not complaint, f"output {i} at level {level}: {complaint}\n{text}"
    return (op, since) in found


def is_tame(graph: Graph, drawn: Drawn, wanted: Sequence[np.ndarray]) -> bool:
    """Whether no operand, constant or result is a number for which operators may deviate."""
    consts = (v.const for node in graph.walk() for v in node.inputs if v.kind == "const")
    arrays = map(np.asarray, (*drawn.inputs, *drawn.params.values(), *consts, *wanted))
    return all(
        bool(np.all(np.abs(a) < 100)) and not bool(np.any((a == 0) & np.signbit(a)))
        for a in (a.astype(np.float64) for a in arrays if is_float(a.dtype))
    )


def differs(
    case: LoweringCase, got: np.ndarray, wanted: np.ndarray, once: np.ndarray, signs: bool
) -> str:
    """How an output of a file differs from JAX's; nothing where it does not."""
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if is_float(wanted.dtype):
        is_other = np.minimum(_apart(case, got, wanted), _apart(case, got, once)) > case.units
        if signs:
            is_other |= (np.signbit(got) != np.signbit(wanted)) & ~np.isnan(wanted)
    else:
        is_other = got != wanted
    if not is_other.any():
        return ""
    return f"{got[is_other][:4]} where JAX has {wanted[is_other][:4]}; {got}, not {wanted}"


def _apart(case: LoweringCase, got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    wide = np.abs(wanted.astype(np.float64))
    largest = float(np.max(wide, where=np.isfinite(wide), initial=1)) if case.of_largest else 0.0
    with np.errstate(all="ignore"):
        return units(got, wanted.astype(got.dtype), max(largest, float(case.of_one)))


@dataclass(frozen=True)
class Trial:
    """Programs of a rule by their seeds, and what they reached."""

    op: Op
    since: int
    watch: Wrap = call
    reached: Reached = field(default_factory=set)

    def is_right(self, case: LoweringCase, seed: int) -> bool:
        """Whether the program of a seed has the rule; **raises** AssertionError if it is wrong."""
        drawn = Seeded(None, rng=random.Random(f"{self.op}/{self.since}/{seed}"))
        with jax.enable_x64(True), np.errstate(all="ignore"):
            return is_right(case, self.op, self.since, self.watch, self.reached, drawn)

    def failures(self, case: LoweringCase, seeds: Iterable[int]) -> list[str]:
        """What is wrong with programs, the shortest first."""
        found = []
        for seed in seeds:
            try:
                self.is_right(case, seed)
            except AssertionError as error:
                found.append(f"seed {seed}: {error}")
        return sorted(found, key=len)
