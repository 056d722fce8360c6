"""What a rule is proved by: JAX evaluates a graph in which it applies, and what it makes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from converter.fuse.match import Recogniser, recogniser_rules
from converter.ir import Graph, Node, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import CONTROL_EVALUATIONS, evaluate, run_node, run_uncompiled
from converter.ir.op import Op
from converter.ir.rewrite import Rule, drop_dead, sweep
from tests.rules.programs import Drawn, Expr

Step = Callable[[Graph], object]
Draw = Callable[[Drawn], "Expr | Sequence[Expr]"]


@dataclass(frozen=True)
class Case:
    """Programs in which a rule applies, and how it is applied; before that ``prepare`` runs, and
    of what may come before it (``perhaps``) some.

    The numbers afterwards are the same but for ``units`` in the last place of an output's largest,
    or of 1, and for the signs of zeros where XLA itself does not keep them (``zeros``). Where few
    of the programs are dangerous, ``enough`` says in how many the rule has to apply. A draw may be
    of things that JAX has ``since`` some version.
    """

    draw: Draw
    apply: Step | None = None
    prepare: Sequence[Step] = ()
    perhaps: Sequence[Step] = ()
    units: float = 0
    zeros: bool = False
    since: str = ""
    enough: int = 0


@dataclass
class Firing:
    """Rules that count how often they gave something."""

    times: int = 0

    def counted(self, rules: Mapping[Op, Rule]) -> dict[Op, Rule]:
        return {op: self._counting(rule) for op, rule in rules.items()}

    def _counting(self, rule: Rule) -> Rule:
        def counting(node: Any, editor: Any) -> Any:
            result = rule(node, editor)
            self.times += result is not None
            return result

        return counting


def swept(rules: Mapping[Op, Rule]) -> Step:
    """Rules as a step; whether one of them gave something."""

    def run(graph: Graph) -> bool:
        firing = Firing()
        sweep(graph, firing.counted(rules))
        return firing.times > 0

    return run


def by_recogniser(recogniser: Recogniser) -> Step:
    return lambda graph: swept(recogniser_rules([recogniser], []))(graph)


Check = Callable[[Drawn], bool]
"""Whether what was drawn is of use; **raises** AssertionError where it is of use and wrong."""


ROUND = 8
"""Programs that are drawn before it is asked whether there have been enough."""


def search(check: Check, first: int, rounds: int, enough: int, size: int = ROUND) -> int:
    """How many programs that are of use were drawn, in so many rounds of a ``size`` or until there
    are enough."""
    found = 0
    for number in range(first, first + rounds):
        if found < enough:
            found += _searched(check, number, size)
    return found


def _searched(check: Check, number: int, size: int) -> int:
    found = 0

    @seed(number)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal found
        with jax.enable_x64(True), np.errstate(all="ignore"):
            found += check(Drawn(data))

    run()
    return found


def keeps_numbers(case: Case, apply: Step, drawn: Drawn) -> bool:
    """Whether a rule applied to what was drawn, which must give the same numbers then."""
    result, *chosen = case.draw(drawn), *(drawn.chance() for _ in case.perhaps)
    graph = drawn.graph(*([result] if isinstance(result, Expr) else result))
    perhaps = (step for step, taken in zip(case.perhaps, chosen, strict=True) if taken)
    for step in (*case.prepare, *perhaps):
        step(graph)
        drop_dead(graph)
    old, text = graph.clone(), str(graph)
    if not apply(graph):
        return False
    drop_dead(graph)
    bare = [n for n in graph.walk() if n.meaning is None and n.op.formula is None]
    unknown = [n for n in bare if n.op not in (*CONTROL_EVALUATIONS, ops.dim_as_value)]
    assert not unknown, f"JAX cannot evaluate {unknown}"
    for wanted, got in zip(numbers_of(old, drawn), numbers_of(graph, drawn), strict=True):
        complaint = differs(wanted, got, case)
        assert not complaint, (
            f"{complaint}\n{text}\nbecomes\n{graph}\nof {drawn.inputs}, {drawn.params}"
        )
    return True


def numbers_of(graph: Graph, drawn: Drawn) -> list[np.ndarray]:
    """By numpy where it has an operation, which takes a tenth of the time, and else by JAX."""
    return [np.asarray(y) for y in evaluate(graph, drawn.inputs, drawn.params, _run)]


def _run(node: Node, args: Sequence[Any], sizes: Any) -> list[Any]:
    if any(isinstance(x, jax.core.Tracer) for x in args):
        return run_node(node, args, sizes)
    if node.op.domain == "ours" and node.op.numpy is None and node.out.rank:
        return jax.jit(lambda *xs: run_node(node, xs, sizes))(*args)  # of several operations
    return run_uncompiled(node, args, sizes)


def differs(old: np.ndarray, new: np.ndarray, case: Case) -> str:
    """How two arrays differ; nothing where they do not."""
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return f"{old.dtype}{list(old.shape)} is {new.dtype}{list(new.shape)}"
    if not is_float(old.dtype):
        return "" if np.array_equal(old, new) else f"{old} is {new}"
    one, two = old.astype(np.float64), new.astype(np.float64)
    if case.units:
        size = np.max(np.abs(one), where=np.isfinite(one), initial=1)
        unit = float(jnp.finfo(old.dtype).eps)
        near = np.isclose(one, two, rtol=0, atol=case.units * unit * size, equal_nan=True)
        return "" if near.all() else f"{old} is {new}"
    signs = case.zeros | (np.signbit(one) == np.signbit(two)) | np.isnan(one)
    same = ((one == two) & signs) | (np.isnan(one) & np.isnan(two))
    return "" if same.all() else f"{old} is {new}"
