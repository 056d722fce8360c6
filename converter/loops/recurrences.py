"""States that a step scales and shifts: all of them at once, by doubling.

With ``y[t] = a[t] * y[t-1] + b[t]`` a state is also ``A * y[t-2] + B``, of the product and the sum
of two steps, and so on: after as many rounds as the length has digits it depends on the first alone
(Hillis and Steele, "Data parallel algorithms", 1986). What is added up is the same as step by step,
in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize
from converter.decompose.expansion import Decomposer
from converter.frontend.array_forms import Constants
from converter.ir import Graph, Node, Value, const, dims, make_node, ops
from converter.ir.evaluation import Apply, Sizes, compute, evaluate, precision, run_node
from converter.ir.names import Names
from converter.ir.op import Linear
from converter.ir.origins import source_behind
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar
from converter.loops.at_once import is_batchable
from converter.loops.scan import Carry, Scan

WIDE = 512
"""Elements of a state, times the rounds, above which a loop is as fast."""

SIDE = 16
"""Elements of a state that a step may mix."""

MOST_FACTORS = 1 << 14
"""Factors of known steps that are written into a file."""

GROWN = 1024.0
"""So much may steps enlarge a state: what would grow further may overflow on another way."""


def solve_recurrences(scan: Scan, editor: Editor, guarded: bool) -> bool:
    """States that depend on themselves alone, and linearly.

    What is ``guarded`` already is what is done where numbers are not finite.
    """
    return any([_is_solved(scan, c, editor, guarded) for c in list(scan.carries)])


def _is_solved(scan: Scan, carry: Carry, editor: Editor, guarded: bool) -> bool:
    own = scan.behind([carry.after])
    chosen = [n for n in scan.nodes if any(id(v) in own for v in n.outputs)]
    others = any(id(c.inside) in own for c in scan.carries if c is not carry)
    known = dims.all_static(carry.inside.shape) and scan.length > 2
    if others or not known or not all(is_batchable(n, scan.length) for n in chosen):
        return False
    way = _way(scan, carry, chosen)
    if way is None or (way[1] is _together and guarded):
        return False
    coefficients, solution = way
    made = _traced_coefficients(scan, carry, chosen, coefficients)
    factors, summands = made.outputs
    double = solution(scan, factors, carry.start)
    if double is None:
        return False
    editor.nodes.extend(made.nodes)

    def inline(function: Callable[..., Any], *operands: Value) -> list[Value]:
        writer = Decomposer(Constants([], Names()), chosen[0].source)
        with precision([]):
            traced = jax.make_jaxpr(function)(*map(_struct, operands))
        return writer.inline(traced, operands, editor.nodes)

    states = partial(_states, double, scan.reverse, not _is_zero(carry.start))
    (after,) = inline(states, carry.start, factors, summands)
    if solution is _together:
        (finite,) = inline(lambda x: jnp.isfinite(x).all().astype(np.int32), after)
        after = _if_finite(finite, after, step_by_step(scan, carry, chosen), editor)
    before, last = inline(partial(_others_of, scan.reverse), carry.start, after)
    for old, whole in ((carry.inside, before), (carry.after, after)):
        part = Value(old.shape, old.dtype, kind="input")
        scan.taken.append((whole, part))
        scan.replace(old, part)
    scan.results[id(carry.final)] = last
    scan.carries.remove(carry)
    return True


def _states(
    double: Double,
    reverse: bool,
    begins: bool,
    start: jax.Array,
    factors: jax.Array,
    lines: jax.Array,
) -> jax.Array:
    """What each step makes of its state; a first state of zeros is left out."""
    if not begins:
        return double(lines, factors)
    states = double(_with_first(start, lines, reverse), factors)
    return states[:-1] if reverse else states[1:]


def _others_of(reverse: bool, start: jax.Array, after: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What each step has, and the last of all."""
    if reverse:
        return jnp.concatenate([after[1:], start[None]]), after[0]
    return jnp.concatenate([start[None], after[:-1]]), after[-1]


def step_by_step(scan: Scan, carry: Carry, chosen: list[Node]) -> Graph:
    """A graph of the loop that makes a state, and of nothing else."""
    taken = [(a, p) for a, p in scan.taken if id(p) in scan.behind([carry.after])]
    parts = [Value(p.shape, p.dtype, kind="input") for _, p in taken]
    inside = Value(carry.inside.shape, carry.inside.dtype, kind="input")
    body = Graph([], [carry.after], chosen).clone()
    new = dict(zip((id(carry.inside), *(id(p) for _, p in taken)), (inside, *parts), strict=True))
    body.replace_operands(lambda v: new.get(id(v), v))
    whole = (scan.length, *inside.shape)
    types = [(inside.shape, inside.dtype), (whole, inside.dtype)]
    params = {"num_carry": 1, "length": scan.length, "reverse": scan.reverse}
    loop = make_node(
        ops.scan, [carry.start, *(a for a, _ in taken)], types, params, source=chosen[0].source
    )
    loop.bodies = {"body": Graph([inside, *parts], body.outputs * 2, body.nodes)}
    return Graph([], loop.outputs[1:], [loop])


def _if_finite(finite: Value, value: Value, other: Graph, editor: Editor) -> Value:
    """A number that a step does not read is multiplied by zero when steps are taken together."""
    (chosen,) = editor.add_many(ops.cond, [finite], [(value.shape, value.dtype)], {})
    editor.nodes[-1].bodies = {"branch_0": other, "branch_1": Graph([], [value], [])}
    return chosen


def _is_zero(value: Value) -> bool:
    known = source_behind(value, (ops.broadcast_in_dim,))
    return known.kind == "const" and not np.any(known.const)


# --------------------------------------------------------------------------------- which are linear


def _way(scan: Scan, carry: Carry, chosen: Sequence[Node]) -> tuple[Coefficients, Solution] | None:
    """How a step treats its state: element by element, or all of them together."""
    moving, state = scan.depending([carry.inside]), carry.inside
    size, rounds = int(np.prod(state.shape)), scan.length.bit_length()
    linear = [node for node in chosen if any(id(v) in moving for v in node.inputs)]
    each = bool(linear) and all(_scales(node, moving, state) for node in linear)
    if each and all(_adds(node, moving) for node in linear):
        return (_ones, _elementwise) if state.dtype in (np.float32, np.int32) else None
    if not linear or state.dtype != np.float32:
        return None
    if each:
        return (_slopes, _elementwise) if size * rounds <= WIDE else None
    mixes = size <= SIDE and all(_mixes(node, moving) for node in linear)
    return (_matrices, _together) if mixes else None


def _adds(node: Node, moving: set[int]) -> bool:
    """Something to the state, or takes it off."""
    one, other = (id(v) in moving for v in node.inputs) if len(node.inputs) == 2 else (True, True)
    return (node.op is ops.add and one != other) or (node.op is ops.sub and one and not other)


def _scales(node: Node, moving: set[int], state: Value) -> bool:
    """Linear, and element by element."""
    alike = [v for v in (*node.inputs, node.out) if id(v) in moving]
    like_state = all(v.shape == state.shape and v.dtype == state.dtype for v in alike)
    return node.op.elementwise and like_state and _mixes(node, moving)


def _mixes(node: Node, moving: set[int]) -> bool:
    """Linear in the operands that depend on the state, which are no condition and no index."""
    places = [i for i, v in enumerate(node.inputs) if id(v) in moving]
    if node.bodies:
        return False
    if node.op is ops.div:
        return places == [0]
    if node.op in (ops.dynamic_slice, *ops.SCATTERS, ops.dynamic_update_slice):
        return False
    if node.op is ops.einsum or node.op.linear is Linear.EACH:
        return len(places) == 1
    if node.op is ops.select_n:
        return 0 not in places
    several = node.op.broadcasts or node.op is ops.concatenate
    return node.op.linear is Linear.TOGETHER and (several or places == [0])


# ------------------------------------------------------------------------------------ coefficients

Step = Callable[[jax.Array, Apply], jax.Array]
Coefficients = Callable[[Step, jax.Array], tuple[jax.Array, jax.Array]]
"""Of a step and a state of zeros the factors and the summands."""


def _ones(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of sums, whole numbers among them."""
    return jnp.ones_like(zero), step(zero, run_node)


def _slopes(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    shift, slope = jax.jvp(lambda x: step(x, run_node), (zero,), (jnp.ones_like(zero),))
    return slope, shift


def _matrices(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    """In twice the digits, as products of many steps are made of them."""

    def flat(line: jax.Array) -> jax.Array:
        return step(line.reshape(zero.shape), _run_wide).reshape(-1).astype(np.float64)

    def column(unit: jax.Array) -> jax.Array:
        return jax.jvp(flat, (zero.reshape(-1),), (unit,))[1]

    units = jnp.eye(zero.size, dtype=zero.dtype)
    return jax.vmap(column, out_axes=-1)(units), step(zero, run_node)


def _run_wide(node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
    wide = [jnp.asarray(a, np.float64) if a.dtype == np.float32 else a for a in args]
    params = {**node.params, "dtype": np.float64} if node.op is ops.einsum else node.params
    return run_node(replace(node, params=params), wide, sizes)


def _traced_coefficients(
    scan: Scan, carry: Carry, chosen: list[Node], coefficients: Coefficients
) -> Graph:
    """The factors and summands of all steps, as far as they are known."""
    whole = {id(part): array for array, part in scan.taken}
    made = {id(carry.inside), *(id(v) for n in chosen for v in n.outputs)}
    read = {id(v): v for n in chosen for v in n.operands() if v.kind != "const"}
    given = [v for i, v in read.items() if i not in made]
    graph = Graph([carry.inside, *given], [carry.after], chosen)

    def of_step(_: Any, *xs: jax.Array) -> tuple[jax.Array, jax.Array]:
        zero = jnp.zeros(carry.inside.shape, carry.inside.dtype)
        return coefficients(lambda x, apply: evaluate(graph, [x, *xs], apply=apply)[0], zero)

    numbers = const(np.arange(scan.length, dtype=np.int32))
    operands = [numbers, *(whole.get(id(v), v) for v in given)]
    axes = [0, *(0 if id(v) in whole else None for v in given)]
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(jax.vmap(of_step, axes))(*map(_struct, operands))
    nodes = list[Node]()
    writer = Decomposer(Constants([], Names()), chosen[0].source)
    found = Graph([], writer.inline(closed, operands, nodes), nodes)
    canonicalize(found)
    return found


def _struct(value: Value) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


# ---------------------------------------------------------------------------------------- doubling

Double = Callable[[jax.Array, jax.Array], jax.Array]
"""From summands, the first state among them or before them all zeros, and factors the states."""

Solution = Callable[[Scan, Value, Value], Double | None]
"""Of factors and the first state; ``None`` where it is not proved."""


def _elementwise(scan: Scan, factors: Value, start: Value) -> Double | None:
    """Factors of at most one, which may get small and then stay above nothing: infinity times
    a factor is infinity as many steps as there are.
    """
    number, reverse, known = scalar(factors), scan.reverse, known_range(factors)
    if number is None and not (known.within(0, 1) and known.low > 0):
        return None
    if number is not None and (not number or not _stays(number, scan.length)):
        return None

    def double(lines: jax.Array, factors: jax.Array) -> jax.Array:
        if number == 1:
            return lax.cumsum(lines, 0, reverse)
        factor: Any = number
        if number is None:
            one = jnp.ones_like(lines[0])
            factor = _with_first(one, factors, reverse) if len(lines) > len(factors) else factors
        for apart in _distances(len(lines)):
            lines = lines + factor * _shifted(lines, apart, reverse)
            if number is None:
                factor = jnp.maximum(factor * _shifted(factor, apart, reverse), TINY)
            else:
                factor = float(np.copysign(max(factor**2, TINY), factor**2))
        return lines

    return double


TINY = float(np.finfo(np.float32).tiny)


def _stays(number: float, length: int) -> bool:
    return length * math.log(abs(number)) <= math.log(GROWN)


def _together(scan: Scan, factors: Value, start: Value) -> Double | None:
    """Factors that are known, of which no product enlarges much."""
    if source_behind(factors, (ops.broadcast_in_dim,)).kind != "const":
        return None
    reverse = scan.reverse
    matrices = np.asarray(compute(factors, lambda v: v.const), np.float64)
    rounds = _products(matrices[::-1] if reverse else matrices, not _is_zero(start))
    heavy = sum(each.size for each in rounds) > MOST_FACTORS
    if heavy or any(not np.abs(each).max() <= GROWN for each in rounds):
        return None

    def double(states: jax.Array, _: jax.Array) -> jax.Array:
        lines = states.reshape(len(states), -1).T
        for apart, products in zip(_distances(len(states)), rounds, strict=True):
            turned = (products[::-1] if reverse else products).astype(np.float32)
            lines = lines + _products_with(turned, _shifted(lines, apart, reverse, axis=1))
        return lines.T.reshape(states.shape)

    return double


def _products_with(matrices: np.ndarray, lines: jax.Array) -> jax.Array:
    """One matrix for all steps, or one for each, whose products ONNX Runtime takes one by one."""
    if len(matrices) == 1:
        return matrices[0] @ lines
    return (matrices.transpose(1, 2, 0) * lines).sum(1)


def _products(matrices: np.ndarray, begins: bool) -> list[np.ndarray]:
    """For each distance the products of so many matrices up to every step, or the one for all."""
    found = matrices
    if begins:
        found = np.concatenate([np.zeros_like(matrices[:1]), matrices])
    count, rounds = len(found), list[np.ndarray]()
    if (matrices == matrices[0]).all():
        found = matrices[:1]
    for apart in _distances(count):
        rounds.append(found)
        found = found @ np.roll(found, apart if len(found) > 1 else 0, 0)
        if len(found) > 1:
            found[: 2 * apart] = 0
    return rounds


def _distances(count: int) -> Sequence[int]:
    """1, 2, 4 … as far as so many lines reach."""
    return [1 << i for i in range((count - 1).bit_length())]


def _with_first(start: jax.Array, lines: jax.Array, reverse: bool) -> jax.Array:
    """The first state before, or behind, the steps' own."""
    parts = [start[None], lines]
    return jnp.concatenate(parts[::-1] if reverse else parts)


def _shifted(lines: jax.Array, apart: int, reverse: bool, axis: int = 0) -> jax.Array:
    """The lines so many steps before; there are none before the first."""
    edges = (-apart, apart, 0) if reverse else (apart, -apart, 0)
    padding = [edges if i == axis else (0, 0, 0) for i in range(lines.ndim)]
    return lax.pad(lines, np.zeros((), lines.dtype), padding)
