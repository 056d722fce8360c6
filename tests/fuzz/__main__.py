"""Judge random programs: `python -m tests.fuzz --programs 300 --seed 0 --jobs 2`. Ends with 1 if a
program fails."""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tests
from tests.forms.program import printed
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.part import SIZE, Journal, Part

FLAGS = " ".join(
    (*tests.FLAGS, "--xla_cpu_parallel_codegen_split_count=1", "--xla_allow_excess_precision=false")
)
"""Flags with which thousands of functions that run once are compiled six times faster than by
default."""

VARIABLES = {
    "XLA_FLAGS": os.environ.get("FUZZ_XLA_FLAGS", FLAGS),
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # almost no function is compiled again
    "PYTHONWARNINGS": "ignore",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

CODE = "from tests.fuzz.part import main; main()"
"""What a process runs that judges a part."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("--programs", type=int, default=300, help="number of programs")
    arguments.add_argument("--first", type=int, default=0, help="index of the first program")
    arguments.add_argument("--seed", default="0")
    arguments.add_argument("--jobs", type=int, default=1, help="processes")
    arguments.add_argument(
        "--steps", type=int, default=12, help="largest number of steps of a program"
    )
    arguments.add_argument("--show", type=int, help="print the program of this index and judge it")
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the programs and print a summary. Return 1 if a program failed."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        if options.show is not None:
            return _show(Part(Path(folder), options.seed, options.steps, _single(options.show)))
        start = time.monotonic()
        indices = range(options.first, options.first + options.programs)
        parts = [Part(Path(folder), options.seed, options.steps, r) for r in _split(indices)]
        with ThreadPoolExecutor(options.jobs) as threads:
            outcomes = [o for part in threads.map(judge_part, parts) for o in part]
    counts = Counter(outcome.kind for outcome in outcomes)
    print(f"{len(outcomes)} programs in {time.monotonic() - start:.0f} s:", dict(counts))
    taken, known = (sum(getattr(o, n) for o in outcomes) for n in ("taken", "branches"))
    print(f"{taken} of {known} branches ran")
    return 0 if all(outcome.is_fine for outcome in outcomes) else 1


def _single(index: int) -> range:
    return range(index, index + 1)


def _split(indices: range) -> Iterator[range]:
    """Yield the indices of each part."""
    start = indices.start
    while start < indices.stop:
        stop = min(indices.stop, (start // SIZE + 1) * SIZE)
        yield range(start, stop)
        start = stop


def _show(part: Part) -> int:
    """Print the program of a part and judge it. Return 1 if it fails."""
    logging.disable(logging.ERROR)
    for program in part.programs().values():
        print(printed(program), flush=True)
        outcome = judge(program)
        print(outcome)
        return 0 if outcome.is_fine else 1
    return 1


def judge_part(part: Part, code: str = CODE) -> list[Outcome]:
    """Judge a part in processes of its own, one after the other if programs end them. Print the
    failures and return the outcomes. ``code`` is what the processes run."""
    numbers = (part.steps, part.indices.start, part.indices.stop)
    command = [sys.executable, "-c", code, str(part.folder), part.seed, *map(str, numbers)]
    errors = part.file.with_suffix(".txt")
    while True:
        with errors.open("w") as stderr:
            process = subprocess.run(
                command,
                env=os.environ | VARIABLES,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        journal = Journal(part.file)
        if process.returncode == 0:
            print(process.stdout, end="", flush=True)
            return journal.outcomes[: len(part.indices)]
        text = errors.read_text(errors="replace")
        kind = "hangs" if "Timeout (" in text else "crash"
        if not journal.end(kind, f"the process ended with {process.returncode}: {text[:2000]}"):
            raise RuntimeError(f"{' '.join(command)} ended outside of a program:\n{text}")


if __name__ == "__main__":
    sys.exit(main())
