"""Many programs in worker processes, which may die: what crashes one is an outcome too."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
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


COMMAND = (sys.executable, "-m", "tests.fuzz.worker")


class Worker:
    """A process that judges programs whose indices are written to it."""

    def __init__(self, arguments: Sequence[str], command: Sequence[str] = COMMAND) -> None:
        environment = {
            **os.environ,
            "XLA_FLAGS": os.environ.get("FUZZ_XLA_FLAGS", FLAGS),
            "PYTHONWARNINGS": "ignore",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,  # `select` does not see what lies in a buffer of ours
        )
        self.index = -1
        self._since = 0.0
        self._in_jax = False

    def give(self, index: int) -> None:
        assert self._process.stdin is not None
        self.index, self._since, self._in_jax = index, time.monotonic(), False
        self._process.stdin.write(f"{index}\n".encode())
        self._process.stdin.flush()

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def take(self) -> Outcome | None:
        """What it has to say: the outcome, or none yet, but whether it is in JAX now.

        A dead process is an outcome as well.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return self._failed("crash", f"the process ended with {self._process.wait()}")
        told = json.loads(line)
        if isinstance(told, bool):
            self._in_jax = told
            return None
        return Outcome(**told)

    def give_up(self) -> Outcome | None:
        """The outcome of what takes too long."""
        late = time.monotonic() - self._since > PATIENCE
        return self._failed("hangs", f"after {PATIENCE} s") if late else None

    def _failed(self, kind: str, detail: str) -> Outcome:
        self.end()
        return Outcome("invalid" if self._in_jax else kind, detail, kind)

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
    busy = [Worker(arguments) for _ in range(min(jobs, len(indices)))]
    for worker in busy:
        worker.give(next(waiting))
    try:
        while busy:
            ready = select.select(busy, [], [], 5.0)[0]
            for worker in list(busy):
                outcome = worker.take() if worker in ready else worker.give_up()
                if outcome is None:
                    continue
                yield Found(worker.index, outcome)
                busy.remove(worker)
                index = next(waiting, None)
                if index is None:
                    worker.end()
                    continue
                busy.append(worker if worker.is_alive else Worker(arguments))
                busy[-1].give(index)
    finally:
        for worker in busy:
            worker.end()


def written(told: Outcome | bool) -> str:
    """What a worker says, on one line: an outcome, or whether it is in JAX."""
    return json.dumps(told if isinstance(told, bool) else asdict(told))
