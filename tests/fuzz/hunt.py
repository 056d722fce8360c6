"""Many programs in worker processes, which may die: what crashes one is an outcome too."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tests.fuzz.judge import Outcome

PATIENCE = 240.0
"""Seconds for one program."""

FLAGS = " ".join(
    (
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_allow_excess_precision=false",
    )
)
"""Thousands of functions are compiled that run once: six times faster than by default."""


@dataclass(frozen=True)
class Found:
    """What became of program ``index`` of the hunt's seed."""

    index: int
    outcome: Outcome


class Worker:
    """A process that judges programs whose indices are written to it."""

    def __init__(self, arguments: list[str]) -> None:
        environment = {
            **os.environ,
            "XLA_FLAGS": os.environ.get("FUZZ_XLA_FLAGS", FLAGS),
            "PYTHONWARNINGS": "ignore",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.index: int | None = None
        self.since = 0.0

    def give(self, index: int) -> None:
        assert self._process.stdin is not None
        self.index, self.since = index, time.monotonic()
        self._process.stdin.write(f"{index}\n".encode())
        self._process.stdin.flush()

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def take(self) -> Outcome:
        """The outcome of the program that it was given; a dead process is one as well."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return Outcome("crash", f"the process ended with {self._process.wait()}", "crash")
        return Outcome(**json.loads(line))

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        # Reads what is left, waits, and closes both pipes.
        self._process.communicate()


def hunt(indices: range, arguments: list[str], jobs: int = 1) -> Iterator[Found]:
    """Judge programs, as they are done."""
    waiting = iter(indices)
    workers = [Worker(arguments) for _ in range(jobs)]
    busy: list[Worker] = []
    try:
        for worker in workers:
            index = next(waiting, None)
            if index is not None:
                worker.give(index)
                busy.append(worker)
        while busy:
            ready, _, _ = select.select(busy, [], [], 5.0)
            late = [w for w in busy if time.monotonic() - w.since > PATIENCE and w not in ready]
            for worker in [*ready, *late]:
                busy.remove(worker)
                assert worker.index is not None
                yield Found(worker.index, worker.take() if worker in ready else Outcome("hangs"))
                if worker in late or not worker.is_alive:
                    worker.end()
                    worker = Worker(arguments)
                    workers.append(worker)
                index = next(waiting, None)
                if index is not None:
                    worker.give(index)
                    busy.append(worker)
    finally:
        for worker in workers:
            worker.end()


def written(outcome: Outcome) -> str:
    """An outcome on one line."""
    return json.dumps(asdict(outcome))
