"""Judge random programs: `python -m tests.fuzz --programs 300 --seed 0 --jobs 2`. Ends with 1 if a
program fails."""

import argparse
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from random import Random

from tests.forms.draw import Limits, draw
from tests.forms.program import printed
from tests.fuzz.hunt import hunt
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.shrink import shrink


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("--programs", type=int, default=300, help="number of programs")
    arguments.add_argument("--first", type=int, default=0, help="index of the first program")
    arguments.add_argument("--seed", default="0")
    arguments.add_argument("--jobs", type=int, default=1, help="worker processes")
    arguments.add_argument(
        "--steps", type=int, default=12, help="largest number of steps of a program"
    )
    arguments.add_argument(
        "--shrink", type=int, default=3, help="number of programs of each cause that are shrunk"
    )
    arguments.add_argument("--show", type=int, help="print the program of this index and judge it")
    return arguments


def main() -> int:
    """Judge the programs and print a summary. Return 1 if a program failed."""
    logging.disable(logging.ERROR)
    options = parser().parse_args()
    limits = Limits((2, options.steps))
    if options.show is not None:
        program = draw(Random(f"{options.seed}/{options.show}"), limits)
        print(printed(program))
        print(judge(program))
        return 0
    start = time.monotonic()
    indices = range(options.first, options.first + options.programs)
    results = list(_print_failures(hunt(indices, options.seed, limits, options.jobs)))
    counts = Counter(outcome.kind for _, outcome in results)
    print(f"{len(results)} programs in {time.monotonic() - start:.0f} s:", dict(counts))
    taken, known = (sum(getattr(o, n) for _, o in results) for n in ("taken", "branches"))
    print(f"{taken} of {known} branches ran")
    failed = [result for result in results if not result[1].is_fine]
    _report(failed, options, limits)
    return 1 if failed else 0


def _print_failures(results: Iterable[tuple[int, Outcome]]) -> Iterator[tuple[int, Outcome]]:
    """Yield the results unchanged, and print each failure at once."""
    for index, outcome in results:
        if not outcome.is_fine:
            print(f"{index}: {outcome.kind}, {outcome.cause}: {outcome.detail[:200]!r}", flush=True)
        yield index, outcome


def _report(failed: list[tuple[int, Outcome]], options: argparse.Namespace, limits: Limits) -> None:
    """Print each cause of failures with its number of programs, and the shrunk programs."""
    causes: dict[tuple[str, str], list[tuple[int, Outcome]]] = defaultdict(list)
    for index, outcome in failed:
        causes[outcome.kind, outcome.cause].append((index, outcome))
    for (kind, cause), group in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"\n== {len(group)} times {kind}: {cause}", [index for index, _ in group][:20])
        # Wrong numbers have no message that distinguishes causes: shrink all of them.
        for index, outcome in group[: None if kind.startswith("wrong") else options.shrink]:
            program = draw(Random(f"{options.seed}/{index}"), limits)
            if kind not in ("crash", "hangs"):
                program = shrink(program, outcome)
                outcome = judge(program)
            print(f"-- {index}: {outcome.detail[:400]}\n{printed(program)}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
