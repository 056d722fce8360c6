"""States that a step scales and shifts: all of them at once, by doubling.

With ``y[t] = a[t] * y[t-1] + b[t]`` a state is also ``A * y[t-2] + B``, of the product and the sum
of two steps, and so on: after as many rounds as the length has digits it depends on the first alone
(Hillis and Steele, "Data parallel algorithms", 1986). What is added up is the same as step by step,
in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.decompose.expansion import Decomposer
from converter.frontend.array_forms import Constants
from converter.ir import Graph, Node, Value, dims, make_node, ops
from converter.ir.evaluation import precision
from converter.ir.names import Names
from converter.ir.rewrite import Editor
from converter.loops.at_once import is_batchable
from converter.loops.doubling import (
    Double,
    Solution,
    is_zero,
    solve_each,
    solve_together,
    with_first,
)
from converter.loops.linear_steps import (
    Coefficients,
    adds,
    matrices_of_step,
    mixes,
    ones_of_sums,
    scales,
    slopes_of_step,
    struct_of,
    traced_coefficients,
)
from converter.loops.scan import Carry, Scan

WIDE = 512
"""Elements of a state, times the rounds, above which a loop is as fast."""

SIDE = 16
"""Elements of a state that a step may mix."""


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
    plain = all(is_batchable(n, scan.length) and not n.bodies for n in chosen)
    if others or not known or not plain:
        return False
    way = _way(scan, carry, chosen)
    if way is None or (way[1] is solve_together and guarded):
        return False
    coefficients, solution = way
    made = traced_coefficients(scan, carry, chosen, coefficients)
    factors, summands = made.outputs
    double = solution(scan, factors, carry.start)
    if double is None:
        return False
    editor.nodes.extend(made.nodes)

    def inline(function: Callable[..., Any], *operands: Value) -> list[Value]:
        writer = Decomposer(Constants([], Names()), chosen[0].source)
        with precision([]):
            traced = jax.make_jaxpr(function)(*map(struct_of, operands))
        return writer.inline(traced, operands, editor.nodes)

    states = partial(_states, double, scan.reverse, not is_zero(carry.start))
    (after,) = inline(states, carry.start, factors, summands)
    if solution is solve_together:
        (finite,) = inline(lambda x: jnp.isfinite(x).all().astype(np.int32), after)
        after = _if_finite(finite, after, _step_by_step(scan, carry, chosen), editor)
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
    states = double(with_first(start, lines, reverse), factors)
    return states[:-1] if reverse else states[1:]


def _others_of(reverse: bool, start: jax.Array, after: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What each step has, and the last of all."""
    if reverse:
        return jnp.concatenate([after[1:], start[None]]), after[0]
    return jnp.concatenate([start[None], after[:-1]]), after[-1]


def _step_by_step(scan: Scan, carry: Carry, chosen: list[Node]) -> Graph:
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


def _way(scan: Scan, carry: Carry, chosen: Sequence[Node]) -> tuple[Coefficients, Solution] | None:
    """How a step treats its state: element by element, or all of them together."""
    moving, state = scan.depending([carry.inside]), carry.inside
    size, rounds = int(np.prod(state.shape)), scan.length.bit_length()
    linear = [node for node in chosen if any(id(v) in moving for v in node.inputs)]
    each = bool(linear) and all(scales(node, moving, state) for node in linear)
    if each and all(adds(node, moving) for node in linear):
        return (ones_of_sums, solve_each) if state.dtype in (np.float32, np.int32) else None
    if not linear or state.dtype != np.float32:
        return None
    if each:
        return (slopes_of_step, solve_each) if size * rounds <= WIDE else None
    small = size <= SIDE and all(mixes(node, moving) for node in linear)
    return (matrices_of_step, solve_together) if small else None
