"""Judge one part of a run, in a process of its own: a program may end the process.

The outcomes are in a file. A process that judges the same part again takes them from there, so that
it goes on behind the program that ended the last process.
"""

import faulthandler
import itertools
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FlakyFailure

from tests.forms.draw import Limits, programs
from tests.forms.program import Program, printed
from tests.fuzz.judge import Outcome, judge

SIZE = 50
"""The number of programs that hypothesis draws from one seed."""

PATIENCE = 240.0
"""The time limit of a program in seconds."""

SHRUNK = 3
"""The number of failures of the same cause that are shrunk. Wrong numbers have no message that
distinguishes causes, so all of them are shrunk."""

ENDED = ("crash", "hangs")
"""Kinds of outcomes of programs that ended their process."""

SETTINGS = settings(
    max_examples=SIZE,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)

Judge = Callable[[Program], Outcome]


class Failure(Exception):
    """Raised for hypothesis if a program fails."""


@dataclass(frozen=True)
class Part:
    """The programs of these indices, which are drawn from one seed, and the folder of the run."""

    folder: Path
    seed: str
    steps: int
    indices: range

    @property
    def file(self) -> Path:
        """The file of outcomes."""
        return self.folder / f"{self.indices.start}.jsonl"

    def draw(self, test: Callable[[Program], None]) -> None:
        """Call a function with each program of the seed, and with smaller ones if it raises."""
        number = self.indices.start // SIZE

        @hypothesis.seed(f"{self.seed}/{number}")
        @settings(SETTINGS)
        @given(programs(Limits((1, self.steps))))
        def run(program: Program) -> None:
            test(program)

        run()

    def programs(self) -> dict[int, Program]:
        """Return the programs by index."""
        indices = itertools.count(self.indices.start // SIZE * SIZE)
        table: dict[int, Program] = {}
        self.draw(lambda program: table.setdefault(next(indices), program) and None)
        return {index: table[index] for index in self.indices if index in table}


class Journal:
    """The file of the outcomes of a part, and a judge that does not judge again what is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.entries = [json.loads(line) for line in lines]
        self.outcomes = [Outcome(**e["outcome"]) for e in self.entries if "outcome" in e]
        texts = [e["program"] for e in self.entries if "program" in e]
        self._known = [*zip(texts, self.outcomes, strict=False)][::-1]

    def judge(self, program: Program) -> Outcome:
        text = printed(program)
        if self._known and self._known[-1][0] == text:
            return self._known.pop()[1]
        self._write(program=text)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        outcome = judge(program, lambda is_in_jax: self._write(is_in_jax=is_in_jax))
        faulthandler.cancel_dump_traceback_later()
        self._write(outcome=asdict(outcome))
        return outcome

    def end(self, kind: str, detail: str) -> bool:
        """Write the outcome of the program that ended the process. Return whether there is one."""
        if not self.entries or "outcome" in self.entries[-1]:
            return False
        is_in_jax = self.entries[-1].get("is_in_jax", False)
        self._write(outcome=asdict(Outcome("invalid" if is_in_jax else kind, detail, kind)))
        return True

    def _write(self, **entry: object) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def shrink(part: Part, program: Program, outcome: Outcome, judge: Judge) -> Program:
    """Return a smaller program with the same kind and cause of outcome, or the program itself if
    hypothesis finds none."""
    is_found = False
    smallest = program

    def test(candidate: Program) -> None:
        nonlocal is_found, smallest
        is_found = is_found or candidate == program
        if not is_found:
            return
        judged = outcome if candidate == program else judge(candidate)
        if (judged.kind, judged.cause) == (outcome.kind, outcome.cause):
            smallest = candidate
            raise Failure

    with suppress(Failure, FlakyFailure):
        part.draw(test)
    return smallest


def may_shrink(folder: Path, index: int, outcome: Outcome) -> bool:
    """Return whether the failure of a program is shrunk. The folder is that of the run."""
    if outcome.kind in ENDED:
        return False
    cause = folder / sha256(f"{outcome.kind} {outcome.cause}".encode()).hexdigest()[:16]
    cause.mkdir(exist_ok=True)
    (cause / str(index)).touch()
    return outcome.kind.startswith("wrong") or len(list(cause.iterdir())) <= SHRUNK


def failures(part: Part, judge: Judge) -> Iterator[str]:
    """Judge the programs. Yield a message for each that fails, with the smallest such program."""
    programs = part.programs()
    outcomes = {index: judge(program) for index, program in programs.items()}
    for index, outcome in outcomes.items():
        if outcome.is_fine:
            continue
        program = programs[index]
        if may_shrink(part.folder, index, outcome):
            program = shrink(part, program, outcome, judge)
        yield (
            f"== {index}: {outcome.kind}, {outcome.cause}: {outcome.detail[:400]}\n"
            f"{printed(program)}\n"
        )


def main() -> None:
    """Judge a part and print its failures. The arguments are the fields of `Part`."""
    logging.disable(logging.ERROR)
    faulthandler.enable()
    folder, seed, steps, start, stop = sys.argv[1:]
    part = Part(Path(folder), seed, int(steps), range(int(start), int(stop)))
    for message in failures(part, Journal(part.file).judge):
        print(message, flush=True)
