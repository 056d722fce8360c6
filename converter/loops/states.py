"""States that need no loop: those that count its steps, that nobody reads, or that stay."""

from typing import Any

import numpy as np
from jax import lax

from converter.ir import Graph, Value, const, dims, ops
from converter.ir.evaluation import evaluate, precision, size_in_bytes
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar
from converter.loops.scan import Carry, Scan

LONGEST = 1 << 16
"""Steps whose numbers are written into a file."""


def count_steps(scan: Scan, _: Editor) -> bool:
    """A state that a number is added to in every step is known in each of them."""
    found = [(carry, step) for carry in scan.carries if (step := _step(carry)) is not None]
    if scan.length > LONGEST:
        return False
    for carry, step in found:
        dtype = carry.start.dtype
        with np.errstate(over="ignore"):
            numbers = np.arange(scan.length + 1).astype(dtype) * np.asarray(step, dtype)
            numbers = (numbers + np.asarray(carry.start.const, dtype)).astype(dtype)
        steps = numbers[:-1][::-1] if scan.reverse else numbers[:-1]
        part = Value((), dtype, kind="input")
        scan.replace(carry.inside, part)
        scan.taken.append((const(steps), part))
        scan.results[id(carry.final)] = const(numbers[-1])
        scan.carries.remove(carry)
    return bool(found)


def _step(carry: Carry) -> float | None:
    """What is added to an integer whose start is known."""
    added = carry.after.made_by(ops.add)
    if carry.start.kind != "const" or carry.start.rank or carry.start.dtype.kind not in "iu":
        return None
    if added is None or carry.inside not in added.inputs:
        return None
    other = added.inputs[1 - added.inputs.index(carry.inside)]
    return scalar(other)


KNOWN = 1 << 16
"""Bytes of the states of all steps that are computed while converting."""


def compute_known(scan: Scan, _: Editor) -> bool:
    """States that depend on constants alone are computed while converting."""
    carries = _known_carries(scan)
    if not carries:
        return False
    own = scan.behind(c.after for c in carries)
    nodes = [n for n in scan.nodes if any(id(v) in own for v in n.outputs)]
    taken = [(array, part) for array, part in scan.taken if id(part) in own]
    insides = [*(c.inside for c in carries), *(part for _, part in taken)]
    body = Graph(insides, [c.after for c in carries], nodes)

    def step(states: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
        return evaluate(body, [*states, *parts]), states

    with precision(body.walk()):
        starts, arrays = [c.start.const for c in carries], [array.const for array, _ in taken]
        last, all_states = lax.scan(step, starts, arrays, scan.length, scan.reverse)
    for carry, end, states in zip(carries, last, all_states, strict=True):
        part = Value(carry.inside.shape, carry.inside.dtype, kind="input")
        scan.replace(carry.inside, part)
        scan.taken.append((const(states), part))
        scan.results[id(carry.final)] = const(end)
        scan.carries.remove(carry)
    return True


def _known_carries(scan: Scan) -> list[Carry]:
    """States that begin with constants, and depend on themselves and constants."""
    known = [c for c in scan.carries if c.start.kind == "const"]
    fixed = {id(part) for array, part in scan.taken if array.kind == "const"}
    while known:
        free = fixed | {id(c.inside) for c in known}
        for node in scan.nodes:
            plain = not (node.bodies or node.op.calls or node.refusal)
            static = all(dims.all_static(v.shape) for v in node.outputs)
            if plain and static and all(v.kind == "const" or id(v) in free for v in node.inputs):
                free.update(map(id, node.outputs))
        kept = [c for c in known if id(c.after) in free]
        if len(kept) == len(known):
            break
        known = kept
    size = scan.length * sum(size_in_bytes(c.start) for c in known)
    return known if size <= KNOWN and scan.length <= LONGEST else []


def has_states(scan: Scan, editor: Editor) -> bool:
    """Whether a result depends on a state that does not only count and that a step changes."""
    used = [c.after for c in scan.carries if editor.uses[id(c.final)]]
    needed = scan.behind([*used, *(s.inside for s in scan.stacked)])
    states = [c for c in scan.carries if c.after is not c.inside and _step(c) is None]
    too_long = scan.length > LONGEST and bool(scan.carries)
    return too_long or any(editor.uses[id(c.final)] or id(c.inside) in needed for c in states)


def keep_equal(scan: Scan, _: Editor) -> bool:
    """Arrays that are known to have the same for each step are no arrays."""
    known = [(array, part) for array, part in scan.taken if array.kind == "const"]
    same = [pair for pair in known if _is_same_in_all(np.asarray(pair[0].const))]
    for array, part in same:
        scan.replace(part, const(np.asarray(array.const)[0]))
    scan.drop_dead()
    return bool(same)


def _is_same_in_all(rows: np.ndarray) -> bool:
    return len({row.tobytes() for row in rows}) == 1


def drop_states(scan: Scan, editor: Editor) -> bool:
    """States that nothing but themselves depends on, and those that no step changes."""
    same = [c for c in scan.carries if c.after is c.inside]
    for carry in same:
        scan.replace(carry.inside, carry.start)
        scan.results[id(carry.final)] = carry.start
    scan.carries = [c for c in scan.carries if c not in same]
    live = [c for c in scan.carries if editor.uses[id(c.final)]]
    while True:
        ends = [*(c.after for c in live), *(s.inside for s in scan.stacked)]
        needed = scan.behind(ends)
        more = [c for c in scan.carries if c not in live and id(c.inside) in needed]
        if not more:
            break
        live += more
    dead = [c for c in scan.carries if c not in live]
    scan.results.update((id(c.final), c.start) for c in dead)
    scan.carries = [c for c in scan.carries if c in live]
    scan.drop_dead()
    return bool(same or dead)


def move_invariants(scan: Scan, editor: Editor) -> bool:
    """What depends on nothing of a step goes before the loop."""
    own = [*(c.inside for c in scan.carries), *(part for _, part in scan.taken)]
    moving = scan.depending(own)
    still = [n for n in scan.nodes if id(n.out) not in moving]
    scan.nodes = [n for n in scan.nodes if id(n.out) in moving]
    editor.nodes.extend(still)
    return bool(still)
