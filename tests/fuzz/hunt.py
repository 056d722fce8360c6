"""Judge many programs in worker processes, which may crash. A crash is an outcome too."""

import logging
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import connection, get_context
from random import Random
from unittest import mock

import jax

import tests
from tests.forms.draw import Limits, draw
from tests.fuzz.judge import Outcome, judge

PATIENCE = 240.0
"""The time limit of a program in seconds."""

FORGET = 300
"""The number of programs after which compiled functions are cleared; most are not used again."""

FLAGS = " ".join(
    (*tests.FLAGS, "--xla_cpu_parallel_codegen_split_count=1", "--xla_allow_excess_precision=false")
)
"""Flags with which thousands of functions that run once are compiled six times faster than by
default."""

VARIABLES = {
    "XLA_FLAGS": os.environ.get("FUZZ_XLA_FLAGS", FLAGS),
    "PYTHONWARNINGS": "ignore",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def work(pipe: connection.Connection, seed: str, limits: Limits) -> None:
    """Judge the programs whose indices are received. Send whether JAX runs a program, and its
    outcome."""
    logging.disable(logging.ERROR)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null, stream.fileno())
    for count, index in enumerate(iter(pipe.recv, None)):
        if count % FORGET == FORGET - 1:
            jax.clear_caches()
        pipe.send(judge(draw(Random(f"{seed}/{index}"), limits), pipe.send))


class Worker:
    """A process that judges programs whose indices are sent to it."""

    def __init__(self, seed: str, limits: Limits) -> None:
        context = get_context("spawn")
        self.pipe, worker_end = context.Pipe()
        with mock.patch.dict(os.environ, VARIABLES):
            os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
            self.process = context.Process(
                target=work, args=(worker_end, seed, limits), daemon=True
            )
            self.process.start()
        worker_end.close()
        self.index = -1
        self._since = 0.0
        self._in_jax = False

    def fileno(self) -> int:
        return self.pipe.fileno()

    def give(self, index: int) -> None:
        """Send the index of a program to judge."""
        self.index, self._since, self._in_jax = index, time.monotonic(), False
        self.pipe.send(index)

    def take(self) -> Outcome | None:
        """Return the outcome, also of a process that died or takes too long. Return None while the
        program runs."""
        try:
            while self.pipe.poll():
                message = self.pipe.recv()
                if isinstance(message, Outcome):
                    return message
                self._in_jax = message
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self._failed("crash", f"the process ended with {self.process.exitcode}")
        is_late = time.monotonic() - self._since > PATIENCE
        return self._failed("hangs", f"after {PATIENCE} s") if is_late else None

    def _failed(self, kind: str, detail: str) -> Outcome:
        self.end()
        return Outcome("invalid" if self._in_jax else kind, detail, kind)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def hunt(indices: range, seed: str, limits: Limits, jobs: int = 1) -> Iterator[tuple[int, Outcome]]:
    """Yield the index and the outcome of each program of the seed, in the order in which they are
    finished."""
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
