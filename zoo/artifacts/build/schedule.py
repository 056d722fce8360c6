"""Many builds at once, within a budget of memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass

import jax

from weights.errors import WeightsError
from weights.progress import Quiet
from zoo.artifacts.build.folder import build
from zoo.artifacts.build.plan import Plan
from zoo.errors import FAILED_CHECK, WRONG_USE, ZooError
from zoo.manifest.schema import Manifest
from zoo.registry.lookup import info

TRIES = 3
"""How often a build is started whose process dies."""

BASE = 500e6
"""Bytes that a build takes whatever the model: JAX, ONNX Runtime and their compiled code."""

COPIES = 8
"""How many times the parameters in float32 are in memory, at most; 7.2 to 7.7 were measured on
networks of 22 and 86 million."""


@dataclass(frozen=True)
class Outcome:
    """What became of one folder."""

    plan: Plan
    seconds: float
    manifest: Manifest | None = None
    made: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    error: str | None = None

    @property
    def code(self) -> int:
        """Exit code of a command that built only this."""
        if self.error is not None:
            return WRONG_USE
        return FAILED_CHECK if self.wrong else 0


Told = Callable[[Plan, str], None]
"""Is told of every plan what is going on."""


class Teller(Quiet):
    """Progress of one plan, as words."""

    def __init__(self, plan: Plan, told: Told):
        self.plan, self.told = plan, told

    def stage(self, text: str, total: int | None = None) -> None:
        self.told(self.plan, text)


def attempt(plan: Plan, told: Told) -> Outcome:
    """Build a folder; what is wrong with the request is part of the outcome."""
    began = time.monotonic()
    try:
        built = build(plan, Teller(plan, told))
    except (ZooError, WeightsError) as error:
        return Outcome(plan, time.monotonic() - began, error=str(error))
    finally:
        # Nobody calls this model's compiled functions again.
        jax.clear_caches()
    return Outcome(
        plan,
        time.monotonic() - began,
        built.manifest,
        tuple(built.made),
        tuple(built.there),
        tuple(built.wrong),
    )


def footprint(plan: Plan) -> float:
    """Bytes of memory that a build needs at most, about."""
    return BASE + COPIES * 4 * info(plan.model).parameters


@dataclass(frozen=True)
class Pool:
    """Where builds run: how to open it, what its workers are given, what says that one was lost."""

    open: Callable[[], AbstractContextManager[Executor]]
    told: Told
    lost: tuple[type[Exception], ...]


def run(
    plans: Sequence[Plan], pool: Pool, budget: float, finished: Callable[[Outcome], None]
) -> list[Outcome]:
    """Build all folders, as many at once as there are workers and bytes of memory for.

    What is larger than the budget is built alone. A build whose worker dies is started again.
    """
    queue, tries = list(plans), dict.fromkeys(plans, 0)
    outcomes: dict[Plan, Outcome] = {}

    def settle(outcome: Outcome) -> None:
        outcomes[outcome.plan] = outcome
        finished(outcome)

    while queue:
        with pool.open() as executor:
            for plan in _until_lost(queue, executor, pool, budget, settle):
                tries[plan] += 1
                if tries[plan] < TRIES:
                    queue.insert(0, plan)
                    continue
                settle(
                    Outcome(
                        plan,
                        0.0,
                        error=f"the process that built it died {TRIES} times, perhaps for want of "
                        "memory: lower --jobs.",
                    )
                )
    return [outcomes[plan] for plan in plans]


def _until_lost(
    queue: list[Plan],
    executor: Executor,
    pool: Pool,
    budget: float,
    settle: Callable[[Outcome], None],
) -> list[Plan]:
    """Work through the queue. Where a worker dies: what was being built then, by any of them."""
    running: dict[Future[Outcome], Plan] = {}
    while queue or running:
        while queue and _fits(queue[0], running.values(), budget):
            try:
                future = executor.submit(attempt, queue[0], pool.told)
            except pool.lost:
                return list(running.values())
            running[future] = queue.pop(0)
            if future.done():
                break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            try:
                settle(future.result())
            except pool.lost:
                return list(running.values())
            del running[future]
    return []


def _fits(plan: Plan, running: Collection[Plan], budget: float) -> bool:
    return not running or footprint(plan) + sum(map(footprint, running)) <= budget
