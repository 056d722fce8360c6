"""States that need no loop: those that count its steps, that nobody reads, or that stay."""

import numpy as np

from converter.ir import Value, const, ops
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar
from converter.loops.scan import Carry, Scan

LONGEST = 1 << 16
"""Steps whose numbers are written into a file."""


def count_steps(scan: Scan, _: Editor) -> bool:
    """A state that a number is added to in every step is known in each of them."""
    counters = [(carry, step) for carry in scan.carries if (step := _step(carry)) is not None]
    if scan.length > LONGEST:
        return False
    for carry, step in counters:
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
    return bool(counters)


def _step(carry: Carry) -> float | None:
    """What is added to an integer whose start is known."""
    added = carry.after.made_by(ops.add)
    if carry.start.kind != "const" or carry.start.rank or carry.start.dtype.kind not in "iu":
        return None
    if added is None or carry.inside not in added.inputs:
        return None
    other = added.inputs[1 - added.inputs.index(carry.inside)]
    return scalar(other)


def has_states(scan: Scan, editor: Editor) -> bool:
    """Whether a result depends on a state that does not only count and that a step changes."""
    used = [c.after for c in scan.carries if editor.uses[id(c.final)]]
    needed = scan.behind([*used, *(s.inside for s in scan.stacked)])
    states = [c for c in scan.carries if c.after is not c.inside and _step(c) is None]
    too_long = scan.length > LONGEST and bool(scan.carries)
    return too_long or any(editor.uses[id(c.final)] or id(c.inside) in needed for c in states)


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
