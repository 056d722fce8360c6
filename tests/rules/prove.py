"""Test graph rules: evaluate drawn graphs before and after a rule, and compare the numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import jax
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from converter.fuse.match import Recogniser, recogniser_rules
from converter.ir import Graph, Node, dims, ops
from converter.ir.evaluation import CONTROL_EVALUATIONS, evaluate_bounded, run_eagerly, run_node
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.verify import step_by_step
from tests.arrays import Tolerance, describe_difference
from tests.rules.programs import Drawn, Expr

Step = Callable[[Graph], object]
Draw = Callable[[Drawn], "Expr | Sequence[Expr]"]


@dataclass(frozen=True)
class Case:
    """A draw of programs in which a rule applies, and how the rule is applied.

    ``draw`` is None if programs of `tests.forms` reach the rule often.

    ``apply`` is the step with the rule, by default the rule that the row names. All steps of
    ``prepare`` run before it, and a random selection of ``perhaps``. The numbers must stay the same
    except for ``units`` in the last place of the largest element, or of 1, and except for the signs
    of zeros if ``zeros`` is set, because XLA does not keep them. ``units_of_forms`` is the limit
    for programs of `tests.forms`, if it is larger: they add up numbers that are not small integers.
    ``enough`` is the number of programs in which the rule must apply, if few programs are critical.
    ``since`` is the first version of JAX that can trace the programs. ``finite`` is set if the rule
    may give other results for NaN and infinities.
    """

    draw: Draw | None
    apply: Step | None = None
    prepare: Sequence[Step] = ()
    perhaps: Sequence[Step] = ()
    units: float = 0
    units_of_forms: float = 0
    zeros: bool = False
    since: str = ""
    enough: int = 0
    finite: bool = False


@dataclass(frozen=True)
class Sweep:
    """A step that sweeps rules over a graph. It returns True if a rule applied.

    ``rules_of`` returns the rules for a graph.
    """

    rules_of: Callable[[Graph], Mapping[Op, Rule]]

    def __call__(self, graph: Graph) -> bool:
        return bool(sweep_rules(graph, self.rules_of(graph)))


def sweep_rules(graph: Graph, rules: Mapping[Op, Rule]) -> list[Node]:
    """Sweep rules over a graph, in place. Return the nodes to which a rule applied."""
    nodes: list[Node] = []

    def recorded(rule: Rule) -> Rule:
        def record(node: Node, editor: Editor) -> Any:
            result = rule(node, editor)
            if result is not None:
                nodes.append(node)
            return result

        return record

    sweep(graph, {op: recorded(rule) for op, rule in rules.items()})
    return nodes


def swept(rules: Mapping[Op, Rule]) -> Sweep:
    """Return a step that sweeps these rules."""
    return Sweep(lambda graph: rules)


def by_recogniser(recogniser: Recogniser) -> Sweep:
    """Return a step that sweeps the rules of a recogniser."""
    return Sweep(lambda graph: recogniser_rules([recogniser], []))


Check = Callable[[Drawn], bool]
"""Whether the rule applied to a drawn program; **raises** AssertionError if numbers changed."""


ROUND = 8
"""Number of programs in a round, after which `search` may stop."""


def search(check: Check, first: int, rounds: int, enough: int, size: int = ROUND) -> int:
    """Run a check on drawn programs, and return in how many of them the rule applied.

    Round `first` and the following are drawn, with ``size`` programs each. The search ends after
    ``rounds`` rounds, or when the rule has applied in ``enough`` programs.
    """
    applied = 0
    for round_ in range(first, first + rounds):
        if applied < enough:
            applied += _search_round(check, round_, size)
    return applied


def _search_round(check: Check, round_: int, size: int) -> int:
    applied = 0

    @seed(round_)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.randoms(use_true_random=False))
    def run(rng: Random) -> None:
        nonlocal applied
        with jax.enable_x64(True), np.errstate(all="ignore"):
            applied += check(Drawn(rng))

    run()
    return applied


def keeps_numbers(case: Case, apply: Step, drawn: Drawn) -> bool:
    """Return whether a rule applied to a drawn graph, and assert that its numbers are unchanged."""
    assert case.draw is not None
    result, *choices = case.draw(drawn), *(drawn.chance() for _ in case.perhaps)
    graph = drawn.graph(*([result] if isinstance(result, Expr) else result))
    optional = (step for step, is_chosen in zip(case.perhaps, choices, strict=True) if is_chosen)
    for step in (*case.prepare, *optional):
        step(graph)
        drop_dead(graph)
    original, text = graph.clone(), str(graph)
    if not apply(graph):
        return False
    drop_dead(graph)
    without_formula = [n for n in graph.walk() if n.meaning is None and n.op.formula is None]
    not_evaluated = [
        n for n in without_formula if n.op not in (*CONTROL_EVALUATIONS, ops.dim_as_value)
    ]
    assert not not_evaluated, f"JAX cannot evaluate {not_evaluated}"
    for expected, actual in zip(numbers_of(original, drawn), numbers_of(graph, drawn), strict=True):
        complaint = describe_difference(actual, expected, tolerance_of(case))
        assert not complaint, (
            f"{complaint}\n{text}\nbecomes\n{graph}\nof {drawn.inputs}, {drawn.params}"
        )
    return True


def numbers_of(graph: Graph, drawn: Drawn) -> list[np.ndarray]:
    """Evaluate the graph of a drawn program."""
    return evaluate_graph(graph, drawn.inputs, drawn.params)


Memo = dict[tuple[object, ...], list[Any]]
"""Results of nodes, by operation, parameters and operands."""


def evaluate_graph(
    graph: Graph,
    inputs: Sequence[np.ndarray],
    params: Mapping[str, np.ndarray],
    memo: Memo | None = None,
) -> list[np.ndarray]:
    """Evaluate a graph by numpy where possible (ten times as fast), otherwise by JAX.

    Loops end after `MAX_TURNS` turns. Results in the ``memo`` are not computed again.
    """
    apply = _run if memo is None else partial(_run_once, memo)
    results, _ = evaluate_bounded(graph, inputs, params, apply, MAX_TURNS, BODIES)
    return [np.asarray(y) for y in results]


MAX_TURNS = 1000
BODIES = {**CONTROL_EVALUATIONS, **step_by_step.CONTROL}
"""The evaluations of operations with bodies: loops and branches run in Python, node by node."""


def _run_once(memo: Memo, node: Node, args: Sequence[Any], sizes: Any) -> list[Any]:
    """Return the results of a node, which are computed only once for the same operands."""
    arrays = [np.asarray(x) for x in args]
    operands = tuple((x.shape, x.dtype, x.tobytes()) for x in arrays)
    types = tuple((str(v.shape), v.dtype) for v in node.outputs)
    key = (node.op, node.meaning, repr(node.params), operands, types)
    if key not in memo:
        memo[key] = _run(node, arrays, sizes)
    return memo[key]


def _run(node: Node, args: Sequence[Any], sizes: Any) -> list[Any]:
    """Return the results of a node, and assert that they have the shapes that the graph states."""
    if any(isinstance(x, jax.core.Tracer) for x in args):
        return run_node(node, args, sizes)
    results = _run_concrete(node, args, sizes)
    for value, result in zip(node.outputs, results, strict=True):
        stated, actual = list(value.shape), list(np.shape(result))
        assert not dims.all_static(value.shape) or stated == actual, (node, stated, actual)
    return results


def _run_concrete(node: Node, args: Sequence[Any], sizes: Any) -> list[Any]:
    if node.op.domain == "ours" and node.op.numpy is None and node.out.rank:
        # A composite consists of several operations, which are compiled together.
        return jax.jit(lambda *xs: run_node(node, xs, sizes))(*args)
    return run_eagerly(node, args, sizes)


def tolerance_of(case: Case, error: float = 0.0) -> Tolerance:
    """Return the differences that a case allows. Floats that need not be equal may also differ by
    ``error``."""
    if not case.units:
        return Tolerance(zero_signs=not case.zeros)
    return Tolerance(case.units, magnitude=1, of_largest=True, absolute=error, zero_signs=False)
