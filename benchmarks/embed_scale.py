"""How `zoo embed` divides its chunks among the workers of Dask's own scheduler, some of which fail.

    python benchmarks/embed_scale.py [--workers 64] [--shards 2000] [--rate 10] [--faster 600]

A stub takes the time of a shard's pictures at the measured rate of a core, made so many times
shorter, and computes nothing. Some workers are slow, some die in the middle of a shard, and some
join late. The time of it all is compared with what the shards would take if they were divided
perfectly among the workers while they are there.
"""

import argparse
import asyncio
import logging
import math
import random
import time
from collections import Counter

import dask
from distributed import Scheduler, Worker, get_worker

from zoo.apps.embed.dataset import ChunkResult
from zoo.apps.embed.embed_request import SHARD
from zoo.apps.embed.workers import AHEAD, Workers, dask_submit, run_chunks

SLOW, DYING, LATE = 0.1, 0.1, 0.2
"""Shares of the workers that take four times as long, that die, and that join after a while."""


def stub(index: int, seconds: float) -> ChunkResult:
    """Wait as long as a chunk takes on this worker."""
    slow = str(get_worker().name).startswith("slow")
    time.sleep(seconds * (4 if slow else 1))
    return ChunkResult(counts=Counter(pictures=index))


async def serve(asked: argparse.Namespace, seconds: float) -> None:
    """Run a scheduler and workers in this process, and the shards from a thread of it."""
    draw, whole = random.Random(0), asked.shards * seconds / asked.workers
    async with Scheduler(port=0, dashboard=False) as scheduler:

        async def live(index: int) -> None:
            slow, late = draw.random() < SLOW, draw.random() < LATE
            dies = index and not late and draw.random() < DYING
            await asyncio.sleep(whole * draw.uniform(0.1, 0.5) if late else 0)
            name = f"{'slow' if slow else 'sound'}-{index}"
            worker = await Worker(scheduler.address, nthreads=1, name=name)
            lives[index] = [time.perf_counter(), math.inf, 1 / (4 if slow else 1)]
            if dies:
                await asyncio.sleep(whole * draw.uniform(0.1, 0.9))
                lives[index][1] = time.perf_counter()
                # The scheduler hears nothing but that the connection is broken.
                worker.batched_stream.comm.abort()
                await worker.close(nanny=False, executor_wait=False)
                return
            await finished.wait()
            await worker.close(executor_wait=False)

        finished, lives = asyncio.Event(), dict[int, list[float]]()
        workers = [asyncio.create_task(live(index)) for index in range(asked.workers)]
        try:
            await asyncio.to_thread(embed, scheduler.address, asked, seconds, lives)
        finally:
            finished.set()
            await asyncio.gather(*workers)


def embed(
    address: str, asked: argparse.Namespace, seconds: float, lives: dict[int, list[float]]
) -> None:
    """What `zoo embed --scheduler` does, with the stub in place of the work."""
    done = list[ChunkResult]()
    with dask_submit(address) as (submit, lost):
        began = time.perf_counter()
        workers = Workers(lambda index: submit(stub, index, seconds), AHEAD, lost)
        run_chunks(iter(range(asked.shards)), workers, done.extend)
        wall = time.perf_counter() - began
    assert sorted(result.counts["pictures"] for result in done) == [*range(asked.shards)]
    perfect, hours = least(asked.shards * seconds, began, lives), wall * asked.faster / 3600
    print(f"{asked.shards} shards of {SHARD} pictures, each once, on {asked.workers} workers:")
    print(f"{wall:.1f} s, which stands for {hours:.1f} h: {wall / perfect:.2f} of the least")
    print(f"{asked.shards / wall:.0f} shards a second went through the scheduler")


def least(work: float, began: float, lives: dict[int, list[float]]) -> float:
    """Seconds in which the workers could have done the work while they were there."""
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
    asked = parser.parse_args()
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    asyncio.run(serve(asked, SHARD / asked.rate / asked.faster))


if __name__ == "__main__":
    main()
