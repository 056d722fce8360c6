"""Who works on the shards: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.apps.embed.dask_cluster import connect
from zoo.apps.embed.network import FoundNetwork, Runner, find_network, lane_session
from zoo.apps.embed.shard_work import ShardRecipe, ShardWorker
from zoo.apps.embed.tally import Tally
from zoo.apps.embed.work_folder import ShardNote
from zoo.common.errors import BadFile, BadOutput
from zoo.common.processes import run_tasks

if TYPE_CHECKING:
    from zoo.common.runtime import Session

TOGETHER = 2
"""Shards that are worked on in one process: while the last pictures of one run, the next begins."""

AHEAD = 2048
"""Shards that a scheduler knows of beside those that are done; each is a few bytes for it."""

SHARD_TRIES = 5
"""How often a shard is given out whose workers die."""


@dataclass(frozen=True)
class Crew:
    """Takes shards by their place in the list, so many at a time."""

    submit: Callable[[int], Future[ShardNote]]
    ahead: int
    counts: bool
    lost: tuple[type[Exception], ...] = ()


@contextmanager
def local_crew(recipe: ShardRecipe, threads: int | None, tally: Tally) -> Generator[Crew]:
    """Threads of this process: a lane for each core. **Raises** `BadFile`."""
    network = _same_network(recipe)
    runner = Runner(network, lane_session(network.path), threads or _cores())
    worker = ShardWorker(recipe, runner, tally.count)
    with ThreadPoolExecutor(TOGETHER) as executor:
        try:
            yield Crew(lambda offset: executor.submit(worker.shard, offset), TOGETHER, counts=True)
        finally:
            worker.stop()


def _cores() -> int:
    """Cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def cluster_crew(address: str, recipe: ShardRecipe) -> Generator[Crew]:
    """The workers of a Dask cluster, who see files under the same paths as we do. **Raises**
    `BadRequest`."""
    with connect(address) as (executor, lost):

        def submit(offset: int) -> Future[ShardNote]:
            return executor.submit(work_elsewhere, recipe, offset)

        yield Crew(submit, AHEAD, counts=False, lost=lost)


def work_elsewhere(recipe: ShardRecipe, offset: int) -> ShardNote:
    """Work on a shard in one of a cluster's workers, on one lane."""
    network = _same_network(recipe)
    runner = Runner(network, _kept_session(network.path, network.digest), 1)
    worker = ShardWorker(recipe, runner, tell=None)
    try:
        return worker.shard(offset)
    finally:
        worker.stop()


@lru_cache(1)
def _kept_session(path: Path, digest: str) -> Session:
    return lane_session(path)


def _same_network(recipe: ShardRecipe) -> FoundNetwork:
    """**Raises** `BadFile` where another network is in its place on this machine."""
    network = find_network(recipe.place, recipe.asked.precision)
    if network.digest != recipe.digest:
        raise BadFile(
            f"{network.path} is another file here than where the work was begun: give all machines "
            "one folder."
        )
    return network


def run_shards(crew: Crew, tally: Tally) -> None:
    """Have all shards done that are not. **Raises** what the work on one raises, or `BadOutput`."""

    def settle(shard: tuple[int, int], note: ShardNote | None) -> None:
        if note is None:
            raise BadOutput(
                f"the workers of a shard died {SHARD_TRIES} times, perhaps for want of memory: "
                "give them more, or fewer threads."
            )
        if not crew.counts:
            tally.count(note.rows + len(note.errors), note.fresh)
        tally.finish(note)

    run_tasks(
        tally.left(),
        lambda: nullcontext(crew),
        lambda crew, shard: crew.submit(shard[1]),
        lambda _, running: len(running) < crew.ahead,
        settle,
        crew.lost,
        SHARD_TRIES,
    )
