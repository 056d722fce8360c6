"""Many programs in worker processes, which may die: what crashes one is an outcome too."""

import logging
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import connection, get_context
from unittest import mock

import jax

import tests
from tests.fuzz.draw import Limits, draw
from tests.fuzz.judge import Outcome, judge

PATIENCE = 240.0
"""Seconds for one program."""

FORGET = 300
"""After so many programs what was compiled is forgotten: most of it is not used again."""

FLAGS = " ".join(
    (*tests.FLAGS, "--xla_cpu_parallel_codegen_split_count=1", "--xla_allow_excess_precision=false")
)
"""Thousands of functions are compiled that run once: six times faster than by default."""

VARIABLES = {
    "XLA_FLAGS": os.environ.get("FUZZ_XLA_FLAGS", FLAGS),
    "PYTHONWARNINGS": "ignore",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def work(pipe: connection.Connection, seed: str, limits: Limits) -> None:
    """Judge the programs whose indices come; tell whether JAX runs one, and then the outcome."""
    logging.disable(logging.ERROR)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nothing, stream.fileno())
    for count, index in enumerate(iter(pipe.recv, None)):
        if count % FORGET == FORGET - 1:
            jax.clear_caches()
        pipe.send(judge(draw(f"{seed}/{index}", limits), pipe.send))


class Worker:
    """A process that judges programs whose indices are sent to it."""

    def __init__(self, seed: str, limits: Limits) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        with mock.patch.dict(os.environ, VARIABLES):
            os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
            self.process = context.Process(target=work, args=(theirs, seed, limits), daemon=True)
            self.process.start()
        theirs.close()
        self.index = -1
        self._since = 0.0
        self._in_jax = False

    def fileno(self) -> int:
        return self.pipe.fileno()

    def give(self, index: int) -> None:
        self.index, self._since, self._in_jax = index, time.monotonic(), False
        self.pipe.send(index)

    def take(self) -> Outcome | None:
        """The outcome, also of a process that died or takes too long; none yet while it runs."""
        try:
            while self.pipe.poll():
                told = self.pipe.recv()
                if isinstance(told, Outcome):
                    return told
                self._in_jax = told
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self._failed("crash", f"the process ended with {self.process.exitcode}")
        late = time.monotonic() - self._since > PATIENCE
        return self._failed("hangs", f"after {PATIENCE} s") if late else None

    def _failed(self, kind: str, detail: str) -> Outcome:
        self.end()
        return Outcome("invalid" if self._in_jax else kind, detail, kind)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def hunt(indices: range, seed: str, limits: Limits, jobs: int = 1) -> Iterator[tuple[int, Outcome]]:
    """The index of a program of the hunt's seed and what became of it, as they are done."""
    waiting = iter(indices)
    busy = [Worker(seed, limits) for _ in range(min(jobs, len(indices)))]
    for worker in busy:
        worker.give(next(waiting))
    try:
        while busy:
            connection.wait(busy, 5.0)
            for worker in list(busy):
                if (outcome := worker.take()) is None:
                    continue
                yield worker.index, outcome
                busy.remove(worker)
                if (index := next(waiting, None)) is None:
                    worker.end()
                    continue
                busy.append(worker if worker.process.is_alive() else Worker(seed, limits))
                busy[-1].give(index)
    finally:
        for worker in busy:
            worker.end()
