"""States that a step scales and shifts: all of them at once, by doubling.

With ``y[t] = a[t] * y[t-1] + b[t]`` a state is also ``A * y[t-2] + B``, of the product and the sum
of two steps, and so on: after as many rounds as the length has digits it depends on the first alone
(Hillis and Steele, "Data parallel algorithms", 1986). What is added up is the same as step by step,
in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize
from converter.decompose.expansion import Decomposer
from converter.frontend.array_forms import Constants
from converter.ir import Graph, Node, Value, const, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import compute, evaluate, precision
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

GROWN = 1024.0
"""So much may steps enlarge a state: what would grow further may overflow on another way."""


Solve = Callable[[Scan, Carry, Value, Value], Value | None]
"""From factors and summands the states, the first among them; ``None`` if it is not proved."""


def solve_recurrences(scan: Scan, editor: Editor) -> bool:
    """States that depend on themselves alone, and linearly."""
    return any([_is_solved(scan, carry, editor) for carry in list(scan.carries)])


def _is_solved(scan: Scan, carry: Carry, editor: Editor) -> bool:
    own = scan.behind([carry.after])
    chosen = [n for n in scan.nodes if any(id(v) in own for v in n.outputs)]
    others = any(id(c.inside) in own for c in scan.carries if c is not carry)
    if others or scan.length < 3 or not all(is_batchable(n, scan.length) for n in chosen):
        return False
    way = _way(scan, carry, chosen)
    if way is None:
        return False
    coefficients, solution = way
    made = _traced_coefficients(scan, carry, chosen, coefficients)
    traced = solution(scan, *made.outputs)
    if traced is None:
        return False
    editor.nodes.extend(made.nodes)
    writer = Decomposer(Constants([], Names()), chosen[0].source)
    (states,) = writer.inline(traced, [carry.start, *made.outputs], editor.nodes)
    _put_states(scan, carry, states, editor)
    return True


def _put_states(scan: Scan, carry: Carry, states: Value, editor: Editor) -> None:
    """What a step has and makes of a state are entries of all states."""
    length = scan.length
    first, last = (1, 0) if scan.reverse else (0, length)
    for old, at in ((carry.inside, first), (carry.after, 1 - first)):
        part = Value(old.shape, old.dtype, kind="input")
        scan.taken.append((editor.slice(states, 0, at, at + length), part))
        scan.replace(old, part)
    end = editor.slice(states, 0, last, last + 1)
    scan.results[id(carry.final)] = editor.reshape(end, carry.final.shape)
    scan.carries.remove(carry)


# --------------------------------------------------------------------------------- which are linear


def _way(scan: Scan, carry: Carry, chosen: Sequence[Node]) -> tuple[Coefficients, Solution] | None:
    """How a step treats its state: element by element, or all of them together."""
    moving, state = scan.depending([carry.inside]), carry.inside
    size, rounds = int(np.prod(state.shape)), scan.length.bit_length()
    linear = [node for node in chosen if any(id(v) in moving for v in node.inputs)]
    if not linear or state.dtype not in (np.float32, np.int32):
        return None
    if all(_scales(node, moving, state) for node in linear):
        return (_slopes, _elementwise) if size * rounds <= WIDE else None
    mixes = state.dtype == np.float32 and all(_mixes(node, moving) for node in linear)
    return (_matrices, _together) if mixes and size <= SIDE else None


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
        return places == [0] and is_float(node.out.dtype)
    if node.op is ops.einsum or node.op.linear is Linear.EACH:
        return len(places) == 1
    if node.op is ops.select_n:
        return 0 not in places
    several = node.op.broadcasts or node.op is ops.concatenate
    return node.op.linear is Linear.TOGETHER and (several or places == [0])


# ------------------------------------------------------------------------------------ coefficients

Step = Callable[[jax.Array], jax.Array]
Coefficients = Callable[[Step, jax.Array], tuple[jax.Array, jax.Array]]
"""Of a step and a state of zeros the factors and the summands."""


def _slopes(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    shift = step(zero)
    if not is_float(shift.dtype):
        return step(zero + 1) - shift, shift
    return jax.jvp(step, (zero,), (jnp.ones_like(zero),))[1], shift


def _matrices(step: Step, zero: jax.Array) -> tuple[jax.Array, jax.Array]:
    def flat(state: jax.Array) -> jax.Array:
        return step(state.reshape(zero.shape)).reshape(-1)

    line = zero.reshape(-1)
    def column(unit: jax.Array) -> jax.Array:
        return jax.jvp(flat, (line,), (unit,))[1]

    factors = jax.vmap(column, out_axes=-1)(jnp.eye(zero.size, dtype=zero.dtype))
    return factors, flat(line).reshape(zero.shape)


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
        return coefficients(lambda state: evaluate(graph, [state, *xs])[0], zero)

    numbers = const(np.arange(scan.length, dtype=np.int32))
    operands = [numbers, *(whole.get(id(v), v) for v in given)]
    axes = [0, *(0 if id(v) in whole else None for v in given)]
    with precision(graph.walk()):
        closed = jax.make_jaxpr(jax.vmap(of_step, axes))(*map(_struct, operands))
    nodes = list[Node]()
    writer = Decomposer(Constants([], Names()), chosen[0].source)
    found = Graph([], writer.inline(closed, operands, nodes), nodes)
    canonicalize(found)
    return found


def _struct(value: Value) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


# ---------------------------------------------------------------------------------------- doubling

Solution = Callable[[Scan, Value, Value], Any]
"""A jaxpr of the first state, factors and summands; ``None`` where it is not proved."""


def _elementwise(scan: Scan, factors: Value, summands: Value) -> Any:
    """Factors of at most one, which may get small and then stay above nothing: infinity times
    a factor is infinity as many steps as there are.
    """
    number, reverse = scalar(factors), scan.reverse
    known = known_range(factors)
    if number is None and not (known.within(0, 1) and known.low > 0):
        return None
    if number is not None and (not number or not _stays(number, scan.length)):
        return None
    if number != 1 and not is_float(summands.dtype):
        return None

    def solve(start: jax.Array, factors: jax.Array, summands: jax.Array) -> jax.Array:
        lines = _with_first(start, summands, reverse)
        if number == 1:
            return lax.cumsum(lines, 0, reverse)
        factor = _with_first(jnp.ones_like(start), factors, reverse) if number is None else number
        for apart in _distances(scan.length):
            lines = lines + factor * _shifted(lines, apart, reverse)
            if isinstance(factor, jax.Array):
                factor = jnp.maximum(factor * _shifted(factor, apart, reverse), TINY)
            else:
                factor = float(np.copysign(max(factor**2, TINY), factor**2))
        return lines

    return _traced_solution(solve, factors, summands)


TINY = float(np.finfo(np.float32).tiny)


def _stays(number: float, length: int) -> bool:
    return length * math.log(abs(number)) <= math.log(GROWN)


def _together(scan: Scan, factors: Value, summands: Value) -> Any:
    """Factors that are known, of which no product enlarges much."""
    if source_behind(factors, (ops.broadcast_in_dim,)).kind != "const":
        return None
    reverse = scan.reverse
    matrices = np.asarray(compute(factors, lambda v: v.const), np.float64)
    rounds = _products(matrices[::-1] if reverse else matrices)
    if any(not np.abs(each).max() <= GROWN for each in rounds):
        return None

    def solve(start: jax.Array, _: jax.Array, summands: jax.Array) -> jax.Array:
        states = _with_first(start, summands, reverse)
        lines = states.reshape(scan.length + 1, -1)
        for apart, products in zip(_distances(scan.length), rounds, strict=True):
            turned = (products[::-1] if reverse else products).astype(np.float32)
            lines = lines + _applied(turned, _shifted(lines, apart, reverse))
        return lines.reshape(states.shape)

    return _traced_solution(solve, factors, summands)


def _applied(matrices: np.ndarray, lines: jax.Array) -> jax.Array:
    """One matrix for all lines, or one for each, whose products ONNX Runtime takes one by one."""
    if len(matrices) == 1:
        return lines @ matrices[0].T
    return (matrices * lines[:, None]).sum(-1)


def _products(matrices: np.ndarray) -> list[np.ndarray]:
    """For each distance the products of so many matrices up to every step, the first's alone."""
    size = matrices.shape[-1]
    found = np.concatenate([np.zeros((1, size, size)), matrices])
    if (matrices == matrices[0]).all():
        found = matrices[:1]
    rounds = []
    for apart in _distances(len(matrices)):
        rounds.append(found)
        before = found if len(found) == 1 else np.roll(found, apart, 0)
        found = found @ before
        if len(found) > 1:
            found[: 2 * apart] = 0
    return rounds


def _distances(length: int) -> Sequence[int]:
    return [1 << i for i in range(length.bit_length())]


def _with_first(start: jax.Array, lines: jax.Array, reverse: bool) -> jax.Array:
    """The first state before, or behind, the steps' own."""
    parts = [start[None], lines]
    return jnp.concatenate(parts[::-1] if reverse else parts)


def _shifted(lines: jax.Array, apart: int, reverse: bool) -> jax.Array:
    """The lines so many steps before; there are none before the first."""
    edges = (-apart, apart, 0) if reverse else (apart, -apart, 0)
    return lax.pad(lines, np.zeros((), lines.dtype), [edges, *[(0, 0, 0)] * (lines.ndim - 1)])


def _traced_solution(solve: Callable[..., jax.Array], factors: Value, summands: Value) -> Any:
    start = jax.ShapeDtypeStruct(summands.shape[1:], summands.dtype)
    with precision([]):
        return jax.make_jaxpr(solve)(start, _struct(factors), _struct(summands))
