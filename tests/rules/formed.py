"""Look where rules apply in programs of `tests.forms`, and compare the numbers there.

A program is taken through the passes. Before each pass the rules of that pass are tried. Each node
to which a rule applies is replaced alone, so that its old and new numbers differ by the rounding of
this replacement and not by that of later nodes.
"""

import warnings
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.canonicalize import RULES, canonicalize, fold_constants
from converter.errors import UnsupportedError
from converter.frontend.trace import trace
from converter.ir import Graph, Node, Value, const
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.pipeline.passes import distinct_passes
from converter.pipeline.settings import PassSettings
from tests.arrays import describe_difference
from tests.forms.draw import Limits, draw
from tests.forms.program import Program, Spec, function
from tests.rules.programs import numbers
from tests.rules.prove import Case, Memo, Sweep, evaluate_graph, sweep_rules, tolerance_of

SIZE = 3
"""The size of named dimensions."""

PASSES = {
    "canonicalize": ("canonicalize",),
    "calls": ("fuse.grid_sample.SAMPLE_CALL", "fuse.named_calls", "fuse.resize.RESIZE_CALL"),
    "loops": ("loops",),
    "resample": ("fuse.grid_sample", "fuse.resampling", "fuse.resize"),
    "recognise": ("fuse.gelu", "fuse.layer_norm", "fuse.rotary", "fuse.softmax"),
    "activate": ("fuse.activations",),
    "recur": ("fuse.recurrent",),
    "recognise rms norm": ("fuse.layer_norm.RMS_NORM",),
    "complete": ("fuse.affine", "fuse.attention.shifts", "fuse.rotary.PREFIX"),
    "group": ("fuse.group_norm",),
    "scale groups": ("fuse.group_norm.SPLIT_CHANNELS",),
    "attend": ("fuse.attention",),
    "operands": (
        *("layout.convolution", "layout.heads.emit_rotary", "layout.norm_layout"),
        *("layout.resize_layout", "legalize.support"),
    ),
    "windows": ("layout.pooling", "legalize.bounds"),
    "attention 3d": ("layout.heads",),
    "broadcast": ("layout.broadcast",),
    "channels": ("layout.channel_forms",),
    "take": ("layout.take",),
    "chains": ("layout.chains",),
    "contract": ("layout.contraction",),
    "weight folding": (
        *("fuse.activations.RELU_RULES", "layout.pooling.match_average_pool", "weight_folding"),
    ),
    "batch norm": ("fuse.batch_norm",),
    "batch norm operands": ("layout.norm_layout.BATCH_NORM_RULES",),
    "select": ("layout.chains.SELECT",),
    "deviations": ("legalize.deviations",),
    "arithmetic": ("legalize.deviations.ARITHMETIC_RULES",),
    "quirks": ("targets.onnxruntime.quirks",),
    "dtype fallback": ("legalize.dtype_fallback",),
}
"""The modules and tables whose rules are tried before each pass."""


def pass_of(key: str) -> str:
    """Return the name of the pass before which the rule of a case is tried."""
    pairs = [
        (len(prefix), name)
        for name, row in PASSES.items()
        for prefix in row
        if key.startswith(prefix)
    ]
    return max(pairs)[1]


@dataclass(frozen=True)
class ProgramWithInputs:
    """A program with its graph, and the inputs with which it is evaluated."""

    program: Program
    graph: Graph
    inputs: Sequence[np.ndarray]
    memo: Memo = field(default_factory=dict)


def draw_program(rng: Random, limits: Limits) -> ProgramWithInputs:
    """Draw a program and its inputs."""
    program = draw(rng, limits)
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    with jax.enable_x64(program.x64), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that a file has no `equinox.error_if`
        fn, params = function(program)
        graph = trace(fn, specs, params, kept_calls=PassSettings().kept_calls)
        arrays = np.random.default_rng(rng.randrange(2**32))
        is_special = rng.randrange(2) == 1
        inputs = [draw_array(spec, arrays, is_special) for spec in program.inputs.values()]
    return ProgramWithInputs(program, graph, inputs)


def draw_array(spec: Spec, rng: np.random.Generator, is_special: bool) -> np.ndarray:
    """Draw an array. Some elements of a special one are NaN, infinite or at the end of a range."""
    shape, dtype = [d if isinstance(d, int) else SIZE for d in spec.shape], jnp.dtype(spec.dtype)
    if not is_float(dtype):
        low = 0 if dtype.kind in "ub" else -3
        plain = rng.integers(low, 2 if dtype.kind == "b" else 7, shape)
    else:
        plain = rng.standard_normal(shape)
    planted = rng.choice(np.array([*numbers(spec.dtype)], object), shape)
    is_planted = rng.random(shape) < (0.4 if is_special else 0)
    return np.where(is_planted, planted, plain.astype(object)).astype(dtype)


# ------------------------------------------------------------------------------------- states


@dataclass(frozen=True)
class State:
    """The graph of a program before a pass."""

    pass_name: str
    graph: Graph
    formed: ProgramWithInputs

    @cached_property
    def known(self) -> dict[int, np.ndarray]:
        """The arrays of all results of nodes, by the value's id."""
        values = [v for node in self.graph.nodes for v in node.outputs]
        graph, formed = replace(self.graph, outputs=values), self.formed
        arrays = evaluate_graph(graph, formed.inputs, {}, formed.memo)
        return {id(v): array for v, array in zip(values, arrays, strict=True)}

    def sources(self, position: int) -> set[int]:
        """Return the ids of the values that the node at a position is computed from, and of its
        results. ``position`` counts all nodes of the graph."""
        node = list(self.graph.walk())[position]
        return {id(v) for result in node.outputs for v in ancestors(result)}

    def is_finite(self, ids: Container[int]) -> bool:
        """Return whether all elements of the inputs and of these results are finite."""
        results = (array for i, array in self.known.items() if i in ids)
        arrays = (x for x in (*self.formed.inputs, *results) if is_float(x.dtype))
        return all(np.isfinite(x.astype(np.float64)).all() for x in arrays)


def iterate_states(formed: ProgramWithInputs) -> Iterator[State]:
    """Yield the states of a program before each pass and each round of canonicalization.

    The passes end where the converter refuses the program.
    """
    program, graph = formed.program, formed.graph.clone()
    settings = PassSettings(opset=program.opset, strict=program.strict)
    for step in distinct_passes():
        if step.name == "canonicalize":
            yield from _canonical_states(graph, formed)
            continue
        yield State(step.name, graph.clone(), formed)
        if settings.selected_opset < step.since:
            continue
        try:
            changed = step.run(graph, settings)
        except UnsupportedError:
            return
        if changed and step.canonical:
            yield from _canonical_states(graph, formed)


ROUNDS = 3
"""The number of rounds of canonicalization before which rules are tried."""


def _canonical_states(graph: Graph, formed: ProgramWithInputs) -> Iterator[State]:
    """Canonicalize a graph, in place, and yield its state before each of the first rounds."""
    for _ in range(ROUNDS):
        yield State("canonicalize", graph.clone(), formed)
        if not sweep(graph, RULES):
            break
        drop_dead(graph)
        fold_constants(graph)
        drop_dead(graph)
    canonicalize(graph)


# ------------------------------------------------------------------------------- applications


@dataclass
class Record:
    """The number of nodes to which rules applied, by key, and the complaints about them."""

    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)


MAX_COMPARED = 2


def compare_applications(
    formed: ProgramWithInputs,
    cases: Mapping[str, tuple[Sweep, Case]],
    record: Record,
    most: int = MAX_COMPARED,
) -> None:
    """Try the rules of all cases on a program, and compare the numbers where they apply.

    At most ``most`` applications of a rule to a graph are compared.
    """
    by_pass: dict[str, list[str]] = {}
    for key in cases:
        by_pass.setdefault(pass_of(key), []).append(key)
    with jax.enable_x64(formed.program.x64), np.errstate(all="ignore"):
        for state in iterate_states(formed):
            present = {node.op for node in state.graph.walk()}
            for key in by_pass.get(state.pass_name, ()):
                step, case = cases[key]
                rules = step.rules_of(state.graph)
                if rules.keys() & present:
                    positions = applied_positions(state.graph, rules)
                    record.counts[key] += len(positions)
                    for position in positions[:most]:
                        if complaint := compare_at(state, rules, position, case):
                            record.complaints.append(f"{key}: {complaint}")


def applied_positions(graph: Graph, rules: Mapping[Op, Rule]) -> list[int]:
    """Return the positions among all nodes of those to which rules apply in a sweep."""
    copy = graph.clone()
    positions = {id(node): i for i, node in enumerate(copy.walk())}
    return [positions[id(node)] for node in sweep_rules(copy, rules)]


def compare_at(state: State, rules: Mapping[Op, Rule], position: int, case: Case) -> str:
    """Apply rules to one node of a graph. Return a sentence about the numbers that differ, or an
    empty one.

    If the node is in a body, the results of the node that has the body are compared.
    """
    graph = state.graph.clone()
    node = list(graph.walk())[position]
    origins = _origins(graph, state.graph)
    outer = _outermost(graph, node)
    old = [state.known[id(origins[id(v)])] for v in outer.outputs]
    replacements = _apply_to(graph, node, rules)
    if not replacements:
        return ""
    graph.outputs = list(outer.outputs) if outer is not node else replacements
    text, own = str(graph), {id(v) for v in outer.outputs}
    arrays = {i: state.known[id(v)] for i, v in origins.items() if id(v) in state.known}
    operands = _substitute_constants(graph, {i: x for i, x in arrays.items() if i not in own})
    new = evaluate_graph(graph, state.formed.inputs, {}, state.formed.memo)
    if not _first_difference(old, new, case):
        return ""
    read = {id(origins[i]) for i in operands}
    if case.finite and not state.is_finite(read | state.sources(position)):
        return ""
    error = _rounding(state, position, read) if case.units else 0
    complaint = _first_difference(old, new, case, error)
    return complaint and f"{complaint}\n{state.graph}\nbecomes\n{text}\nof {state.formed.inputs}"


def _first_difference(
    old: Sequence[np.ndarray], new: Sequence[np.ndarray], case: Case, error: float = 0
) -> str:
    tolerance = tolerance_of(case, ERRORS * error)
    pairs = zip(new, old, strict=True)
    return next((text for x, y in pairs if (text := describe_difference(x, y, tolerance))), "")


def _apply_to(graph: Graph, node: Node, rules: Mapping[Op, Rule]) -> list[Value]:
    """Apply rules to one node of a graph, in place. Return the values that replace its results."""
    replacements: list[Value] = []

    def only(rule: Rule) -> Rule:
        def apply(candidate: Node, editor: Editor) -> Any:
            if candidate is not node:
                return None
            result = rule(candidate, editor)
            if result is not None:
                replacements.extend([result] if isinstance(result, Value) else result)
            return result

        return apply

    sweep(graph, {op: only(rule) for op, rule in rules.items()})
    return replacements


def _origins(copy: Graph, graph: Graph) -> dict[int, Value]:
    """Return the values of a graph by the ids of the same values in a copy of it."""
    pairs = zip(copy.walk(), graph.walk(), strict=True)
    return {id(x): y for a, b in pairs for x, y in zip(a.outputs, b.outputs, strict=True)}


def _outermost(graph: Graph, node: Node) -> Node:
    """Return the node of the graph itself that is the node or has it in a body."""
    return next(
        n for n in graph.nodes if n is node or any(node in b.walk() for b in n.bodies.values())
    )


def _substitute_constants(graph: Graph, arrays: Mapping[int, np.ndarray]) -> set[int]:
    """Replace values by constants, in place. Return the ids of those that the outputs depend on."""
    drop_dead(graph)
    constants: dict[int, Value] = {}

    def known(value: Value) -> Value:
        if id(value) in arrays:
            constants[id(value)] = const(arrays[id(value)])
        return constants.get(id(value), value)

    graph.replace_operands(known)
    drop_dead(graph)
    used = {id(v) for node in graph.walk() for v in node.inputs} | set(map(id, graph.outputs))
    return {i for i, v in constants.items() if id(v) in used}


ERRORS = 4
"""The number of rounding errors of operands that the results of a rule may differ by."""


def _rounding(state: State, position: int, operands: set[int]) -> float:
    """Return by how much the results of a node change if its operands have rounding errors.

    ``operands`` are the values that have errors, besides inputs and parameters.
    """
    rng, changes = np.random.default_rng(0), [0.0]
    bound = [v for v in state.formed.graph.params if v.bound is not None]
    for _ in range(ERRORS):
        graph = state.graph.clone()
        origins = _origins(graph, state.graph)
        node = list(graph.walk())[position]
        graph.outputs = list(_outermost(graph, node).outputs)
        old = [state.known[id(origins[id(v)])] for v in graph.outputs]
        moved = {
            i: _with_error(state.known[id(v)], rng) for i, v in origins.items() if id(v) in operands
        }
        _substitute_constants(graph, moved)
        inputs = [_with_error(x, rng) for x in state.formed.inputs]
        params = {v.name: _with_error(np.asarray(v.bound), rng) for v in bound}
        for x, y in zip(old, evaluate_graph(graph, inputs, params), strict=True):
            if is_float(x.dtype):
                change = np.abs(x.astype(np.float64) - y.astype(np.float64))
                changes.append(np.max(change, where=np.isfinite(change), initial=0.0))
    return max(changes)


def _with_error(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array whose floats are rounded up or down by at most a unit in the last place."""
    if not is_float(array.dtype):
        return array
    error = float(jnp.finfo(array.dtype).eps) * rng.uniform(-1, 1, array.shape)
    return (array.astype(np.float64) * (1 + error)).astype(array.dtype)
