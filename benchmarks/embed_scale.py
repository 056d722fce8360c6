"""Measure how `zoo embed` distributes chunks among workers of Dask's scheduler when some workers
fail.

python benchmarks/embed_scale.py [--workers 64] [--shards 2000] [--rate 10] [--faster 600]

A stub replaces the work. It sleeps for the time that the pictures of a shard take at the given rate
of a core, divided by `--faster`. Some workers are slow, some die in the middle of a shard, and some
join late. The program compares the total time with that of a perfect distribution over the workers
that are present.
"""

import argparse
import asyncio
import logging
import math
import random
import time
from collections import Counter
from functools import partial

import dask
from distributed import Scheduler, Worker, get_worker

from zoo.apps.embed.dataset import ChunkResult
from zoo.apps.embed.driver import run_on_cluster
from zoo.apps.embed.requests import SHARD

SLOW, DYING, LATE = 0.1, 0.1, 0.2
"""Shares of the workers that take four times as long, that die, and that join late."""


def run_stub(index: int, seconds: float) -> ChunkResult:
    """Sleep as long as a chunk takes on this worker."""
    is_slow = str(get_worker().name).startswith("slow")
    time.sleep(seconds * (4 if is_slow else 1))
    return ChunkResult(counts=Counter(pictures=index))


async def serve(options: argparse.Namespace, seconds: float) -> None:
    """Run a scheduler and workers in this process, and the shards in one of its threads."""
    rng, expected_seconds = random.Random(0), options.shards * seconds / options.workers
    async with Scheduler(port=0, dashboard=False) as scheduler:

        async def run_worker(index: int) -> None:
            is_slow, is_late = rng.random() < SLOW, rng.random() < LATE
            will_die = index and not is_late and rng.random() < DYING
            await asyncio.sleep(expected_seconds * rng.uniform(0.1, 0.5) if is_late else 0)
            name = f"{'slow' if is_slow else 'sound'}-{index}"
            worker = await Worker(scheduler.address, nthreads=1, name=name)
            lives[index] = [time.perf_counter(), math.inf, 1 / (4 if is_slow else 1)]
            if will_die:
                await asyncio.sleep(expected_seconds * rng.uniform(0.1, 0.9))
                lives[index][1] = time.perf_counter()
                # The scheduler only notices that the connection is broken.
                worker.batched_stream.comm.abort()
                await worker.close(nanny=False, executor_wait=False)
                return
            await finished.wait()
            await worker.close(executor_wait=False)

        finished, lives = asyncio.Event(), dict[int, list[float]]()
        workers = [asyncio.create_task(run_worker(index)) for index in range(options.workers)]
        try:
            await asyncio.to_thread(embed, scheduler.address, options, seconds, lives)
        finally:
            finished.set()
            await asyncio.gather(*workers)


def embed(
    address: str, options: argparse.Namespace, seconds: float, lives: dict[int, list[float]]
) -> None:
    """Distribute the stubs as `zoo embed --scheduler` distributes chunks, and print the times."""
    results = list[ChunkResult]()
    began, function = time.perf_counter(), partial(run_stub, seconds=seconds)
    run_on_cluster(address, function, iter(range(options.shards)), results.extend)
    wall = time.perf_counter() - began
    assert sorted(result.counts["pictures"] for result in results) == [*range(options.shards)]
    perfect, hours = (
        shortest_time(options.shards * seconds, began, lives),
        wall * options.faster / 3600,
    )
    print(f"{options.shards} shards of {SHARD} pictures, each once, on {options.workers} workers:")
    print(f"{wall:.1f} s, which stands for {hours:.1f} h: {wall / perfect:.2f} of the least")
    print(f"{options.shards / wall:.0f} shards a second went through the scheduler")


def shortest_time(work: float, began: float, lives: dict[int, list[float]]) -> float:
    """Return the shortest time, in seconds, in which the workers could have done the work.

    `lives` contains the start, the end and the speed of each worker.
    """
    low, high = 0.0, 1e6
    while high - low > 1e-3:
        middle = (low + high) / 2
        ends = (
            (max(0.0, min(began + middle, end) - max(start, began)), speed)
            for start, end, speed in lives.values()
        )
        low, high = (low, middle) if sum(s * v for s, v in ends) >= work else (middle, high)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--shards", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=10, help="pictures a second of a core")
    parser.add_argument("--faster", type=float, default=600)
    options = parser.parse_args()
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    asyncio.run(serve(options, SHARD / options.rate / options.faster))


if __name__ == "__main__":
    main()
