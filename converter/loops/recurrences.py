"""States that a step scales by known factors and shifts: all of them at once, by doubling.

With ``y[t] = a * y[t-1] + b[t]`` a state is also ``a² * y[t-2] + (a * b[t-1] + b[t])``, and so on:
after as many rounds as the length has digits it depends on the first alone (Hillis and Steele,
"Data parallel algorithms", 1986). What is added up is the same as step by step, in another order.
A moving average of 1,024 numbers is 40 times as fast so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Graph, Node, Value, const, dims, ops
from converter.ir.evaluation import compute
from converter.ir.origins import source_behind
from converter.ir.rewrite import Editor
from converter.loops.at_once import batched, is_batchable, written_out
from converter.loops.scan import Carry, Scan

WIDEST = 512
"""Elements of a state, times the rounds, above which a loop is as fast."""

LARGEST_GROWTH = 1024.0
"""So much may steps enlarge a state: what would grow further may overflow on another way."""

TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Recurrence:
    """``y[t] = factors * y[t-1] + summands[t]``: the factors of each element of a state."""

    carry: Carry
    nodes: Sequence[Node]
    factors: np.ndarray

    @property
    def is_sum(self) -> bool:
        return bool(np.all(self.factors == 1))


def solve_recurrences(scan: Scan, editor: Editor) -> bool:
    """States that depend on themselves alone, and linearly."""
    proved = [r for c in scan.carries if (r := _prove_recurrence(scan, c)) is not None]
    for recurrence in proved:
        _write_solution(scan, recurrence, editor)
    return bool(proved)


def _prove_recurrence(scan: Scan, carry: Carry) -> Recurrence | None:
    own, state = scan.behind([carry.after]), carry.inside
    nodes = [n for n in scan.nodes if any(id(v) in own for v in n.outputs)]
    others = any(id(c.inside) in own for c in scan.carries if c is not carry)
    reads_array = any(id(part) in own for _, part in scan.taken)
    plain = all(is_batchable(n, scan.length) and not n.bodies for n in nodes)
    if others or not (plain and reads_array and dims.all_static(state.shape) and scan.length > 2):
        return None
    factors = _factors(carry.after, state, scan.depending([state]))
    if factors is None:
        return None
    recurrence = Recurrence(carry, nodes, np.broadcast_to(factors, state.shape))
    if recurrence.is_sum:
        return recurrence if state.dtype in (np.float32, np.int32) else None
    narrow = factors.size and math.prod(state.shape) * scan.length.bit_length() <= WIDEST
    stays = narrow and _stays_small(factors, scan.length)
    return recurrence if stays and state.dtype == np.float32 else None


def _factors(value: Value, state: Value, moving: set[int]) -> np.ndarray | None:
    """What the state is multiplied by on the one way that it takes to a value.

    On two ways it could meet itself: infinity less infinity is no number, where one less a half of
    it is infinity.
    """
    factors = np.ones(())
    while value is not state:
        node = value.node
        if node is None or value.shape != state.shape or value.dtype != state.dtype:
            return None
        places = [i for i, v in enumerate(node.inputs) if id(v) in moving]
        if len(places) != 1 or node.op not in (ops.add, ops.sub, ops.neg, ops.mul, ops.div):
            return None
        (place,) = places
        if node.op in (ops.mul, ops.div):
            number = _known_number(node.inputs[1 - place])
            if number is None or (node.op is ops.div and place):
                return None
            factors = factors * (number if node.op is ops.mul else 1 / number)
        elif node.op is ops.neg or (node.op is ops.sub and place):
            factors = -factors
        value = node.inputs[place]
    return factors


def _known_number(value: Value) -> np.ndarray | None:
    """By what nothing on the way to a state overflows or vanishes."""
    if source_behind(value, (ops.broadcast_in_dim,)).kind != "const":
        return None
    number = np.asarray(compute(value, lambda v: v.const), np.float64)
    size = np.abs(number)
    return number if np.all((size <= LARGEST_GROWTH) & (size >= 1 / LARGEST_GROWTH)) else None


def _stays_small(factors: np.ndarray, length: int) -> bool:
    return length * math.log(np.abs(factors).max()) <= math.log(LARGEST_GROWTH)


def _write_solution(scan: Scan, recurrence: Recurrence, editor: Editor) -> None:
    carry, source = recurrence.carry, recurrence.nodes[0].source
    (summands,) = batched(
        *_step_of_zeros(recurrence), {id(part): array for array, part in scan.taken}, editor
    )

    def states(start: jax.Array, summands: jax.Array) -> tuple[jax.Array, ...]:
        """Values that each step has, results that it makes of them, and the last of all."""
        lines = summands[::-1] if scan.reverse else summands
        whole = _doubled(jnp.concatenate([start[None], lines]), recurrence)
        before, after = whole[:-1], whole[1:]
        return (*((before[::-1], after[::-1]) if scan.reverse else (before, after)), whole[-1])

    before, after, last = written_out(states, [carry.start, summands], source, editor)
    for old, whole in ((carry.inside, before), (carry.after, after)):
        part = Value(old.shape, old.dtype, kind="input")
        scan.taken.append((whole, part))
        scan.replace(old, part)
    scan.results[id(carry.final)] = last
    scan.carries.remove(carry)


def _step_of_zeros(recurrence: Recurrence) -> tuple[Sequence[Node], Sequence[Value]]:
    """What a step makes of a state of zeros: the nodes, and their result."""
    state = recurrence.carry.inside
    zeros = const(np.zeros(state.shape, state.dtype))
    step = Graph([], [recurrence.carry.after], list(recurrence.nodes)).clone()
    step.replace_operands(lambda v: zeros if v is state else v)
    return step.nodes, step.outputs


def _doubled(lines: jax.Array, recurrence: Recurrence) -> jax.Array:
    """Each line, and those before it by the products of the factors between them.

    A product may get small and then stays above nothing: infinity times a factor is infinity
    however often.
    """
    if recurrence.is_sum:
        return lax.cumsum(lines, 0)
    factors, apart = recurrence.factors, 1
    while apart < len(lines):
        edges = [(apart, -apart, 0), *((0, 0, 0) for _ in lines.shape[1:])]
        shifted = lax.pad(lines, np.zeros((), lines.dtype), edges)
        lines = lines + factors.astype(np.float32) * shifted
        factors = np.maximum(factors**2, TINY)
        apart *= 2
    return lines
