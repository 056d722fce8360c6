"""Convert programs of one operation, run them in ONNX Runtime, and compare them with JAX."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

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
from tests.arrays import Tolerance, describe_difference
from tests.conformance import NEWEST
from tests.forms.errors import IN_ONNX_RUNTIME
from tests.rules.programs import Drawn, Expr
from tests.rules.prove import numbers_of

OPSETS_TESTED = tuple(opset for opset in (17, 18, 20, 21, 23, 24, 26) if opset <= NEWEST)
"""The opsets at which rules are tested: those that introduced operators."""

Types = Callable[..., Sequence[tuple[Any, Any]]]


def like_first(x: Value, *_: Value) -> list[tuple[Any, Any]]:
    return [(x.shape, x.dtype)]


@dataclass(frozen=True)
class Applied:
    """An operation that no jaxpr has, which is appended to the traced graph as a node.

    ``types`` returns the shapes and dtypes of the outputs for the values of the operands.
    """

    op: Op
    operands: Sequence[Expr]
    params: Mapping[str, Any] = field(default_factory=dict)
    types: Types = like_first
    meaning: Meaning | None = None


@dataclass(frozen=True)
class Result:
    """An output of a program, and perhaps an alternative that the file may agree with.

    JAX rounds every step of a formula in half precision. The file may round only once, as the
    alternative ``once`` does.
    """

    output: Expr | Applied
    once: Expr | Applied | None = None


Program = Sequence[Result]
LoweringDraw = Callable[[Drawn], Program]


@dataclass(frozen=True)
class LoweringCase:
    """How programs of an operation are drawn and compared.

    ``units`` is the largest error of a float in units in its last place. With ``of_one``, the unit
    is at least that of 1; with ``of_largest``, it is at least that of the output's largest number.
    If the operation ``keeps_signs``, zeros must have the signs that JAX gives them. ``programs`` is
    the number of programs in the default tier. If ``refusal`` is not empty, a program may be
    refused with a message that contains it.
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
    """How a program is converted: opset, strictness, and only the needed passes (bare) or all."""

    opset: int
    is_strict: bool
    is_bare: bool

    def settings(self) -> PassSettings:
        return PassSettings(opset=self.opset, strict=self.is_strict, fuse=False)


LEVELS: tuple[Level, ...] = ("disabled", "all")

CANONICAL = (ops.eq_to, ops.le_to, ops.lt_to, ops.reshape)
"""Operations whose canonical forms lowering rules rely on."""

LOSE_SIGNS = (ops.select_n, ops.clamp, ops.max, ops.min)
"""Operations whose results may have a zero of the other sign."""

NEEDED = ("decompose", "windows", "deviations", "arithmetic", "quirks", "dtype fallback")
"""Passes without which a graph cannot be lowered or is not exact."""


def opsets_of(op: Op, since: int) -> list[int]:
    """Return the opsets at which the rule that exists since opset `since` is the newest one."""
    newer = [version for version in BUILTIN_RULES[op] if version > since]
    return [o for o in OPSETS_TESTED if since <= o < min(newer, default=OPSETS[-1] + 1)]


def drawn_way(d: Drawn, op: Op, since: int) -> Way:
    return Way(d.pick(opsets_of(op, since)), d.chance(), d.chance())


# ------------------------------------------------------------------------------------- the graph


def graph_of(drawn: Drawn, results: Sequence[Expr | Applied]) -> Graph:
    """Return the traced program. Operations that no jaxpr has are appended as nodes."""
    operands = [list(m.operands) if isinstance(m, Applied) else [m] for m in results]
    graph = drawn.graph(*(x for group in operands for x in group))
    values, outputs = iter(graph.outputs), list[Value]()
    for result, group in zip(results, operands, strict=True):
        inputs = [next(values) for _ in group]
        if not isinstance(result, Applied):
            outputs += inputs
            continue
        node = make_node(
            result.op, inputs, result.types(*inputs), result.params, meaning=result.meaning
        )
        graph.nodes.append(node)
        outputs += node.outputs
    graph.outputs = outputs
    graph.output_names = [f"y{i}" for i in range(len(outputs))]
    return graph


def _has_empty(graph: Graph) -> bool:
    """Whether a value has no elements. The converter removes operations on empty values."""
    values = (v for node in graph.walk() for v in (*node.inputs, *node.outputs))
    return any(dims.is_same_dim(size, 0) for v in values for size in v.shape)


def prepare(graph: Graph, way: Way, settings: PassSettings) -> None:
    """Bring a graph into the form that lowering rules accept, with all or the needed passes."""
    if not way.is_bare or _has_empty(graph):
        passes.run_passes(graph, settings)
        return
    rules = {op: rule for op, rule in RULES.items() if op in ELIMINATED_OPS or op in CANONICAL}
    steps = [step for step in passes.distinct_passes() if step.name in NEEDED]
    for step in steps:
        step.run(graph, settings)
        for _ in range(2):
            sweep(graph, rules)
        drop_dead(graph)


# ------------------------------------------------------------------------------------- the proof

Reached = set[tuple[Op, int]]
"""Operations that were lowered, with the first opset of the rule that was used."""


def rules_used(graph: Graph, opset: int) -> Reached:
    """Return the rules that lower the nodes of a graph at an opset."""
    owners = ((node.op, find_lowering(node.op, opset)) for node in graph.walk())
    return {
        (op, since)
        for op, owner in owners
        for since, rule in BUILTIN_RULES.get(op, {}).items()
        if rule is owner
    }


Wrap = Callable[[Callable[[], Any]], Any]
"""Function that calls the lowering, and may record its decisions."""


def call(fn: Callable[[], Any]) -> Any:
    return fn()


def _has_operators(graph: Graph, settings: PassSettings) -> bool:
    """Whether the target has an operator for each composite; other composites are decomposed."""
    composites = [node for node in graph.walk() if node.op.structure]
    return all(settings.has_operator(operator_name(node.op), node.out.dtype) for node in composites)


def is_right(
    case: LoweringCase, op: Op, since: int, watch: Wrap, reached: Reached, drawn: Drawn
) -> bool:
    """Return whether a drawn program uses the rule, and assert that its file agrees with JAX.

    The rules that lowered the program are added to `reached`.
    """
    program = case.draw(drawn)
    way = drawn_way(drawn, op, since)
    settings = way.settings()
    graph = graph_of(drawn, [result.output for result in program])
    if not _has_operators(graph, settings):
        way = replace(way, is_bare=False)
    once = graph_of(drawn, [result.once or result.output for result in program])
    original, text = graph.clone(), f"{way}\n{graph}\nof {drawn.inputs}, {drawn.params}"
    try:
        prepare(graph, way, settings)
        found = rules_used(graph, way.opset)
        export = watch(partial(build_export, graph, settings, lambda: original))
    except UnsupportedError as error:
        assert case.refusal and case.refusal in str(error), f"{error}\n{text}"
        return True
    reached |= found
    text += f"\nbecomes\n{graph}"
    expected = numbers_of(original, drawn)
    alternatives = numbers_of(once, drawn) if any(r.once for r in program) else expected
    signs = case.keeps_signs and not any(node.op in LOSE_SIGNS for node in original.walk())
    is_known = bool(settings.deviations) and not is_tame(original, drawn, expected)
    for level in LEVELS:
        try:
            outputs = run(session(export, level=level), drawn.inputs)
        except IN_ONNX_RUNTIME as error:
            raise AssertionError(f"at level {level}: {error}\n{text}") from None
        for i, (output, reference, alternative) in enumerate(
            zip(outputs.values(), expected, alternatives, strict=True)
        ):
            complaint = describe_wrong_output(case, output, reference, alternative, signs)
            assert is_known or not complaint, f"output {i} at level {level}: {complaint}\n{text}"
    return (op, since) in found


def is_tame(graph: Graph, drawn: Drawn, expected: Sequence[np.ndarray]) -> bool:
    """Whether no operand, constant or result is a number for which operators may deviate."""
    consts = (v.const for node in graph.walk() for v in node.inputs if v.kind == "const")
    arrays = map(np.asarray, (*drawn.inputs, *drawn.params.values(), *consts, *expected))
    return all(
        bool(np.all(np.abs(a) < 100)) and not bool(np.any((a == 0) & np.signbit(a)))
        for a in (a.astype(np.float64) for a in arrays if is_float(a.dtype))
    )


def describe_wrong_output(
    case: LoweringCase, actual: np.ndarray, expected: np.ndarray, once: np.ndarray, signs: bool
) -> str:
    """Return how an output differs from JAX's (`expected` or `once`), or an empty text."""
    tolerance = Tolerance(
        case.units,
        magnitude=float(case.of_one or case.of_largest),
        of_largest=case.of_largest,
        zero_signs=signs,
        subnormals=False,
    )
    return describe_difference(actual, expected, tolerance, once)


@dataclass(frozen=True)
class Trial:
    """Programs of a rule by their seeds, and the rules that they reached."""

    op: Op
    since: int
    watch: Wrap = call
    reached: Reached = field(default_factory=set)

    def is_right(self, case: LoweringCase, seed: int) -> bool:
        """Return whether a seed's program uses the rule, and assert that it agrees with JAX."""
        drawn = Drawn(random.Random(f"{self.op}/{self.since}/{seed}"))
        with jax.enable_x64(True), np.errstate(all="ignore"):
            return is_right(case, self.op, self.since, self.watch, self.reached, drawn)

    def failures(self, case: LoweringCase, seeds: Iterable[int]) -> list[str]:
        """Return the failures of the programs of these seeds, the shortest first."""
        messages = []
        for seed in seeds:
            try:
                self.is_right(case, seed)
            except AssertionError as error:
                messages.append(f"seed {seed}: {error}")
        return sorted(messages, key=len)
