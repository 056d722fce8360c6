"""`python -m tests.fuzz --programs 300 --seed 0 --jobs 2`; ends with 1 if a program fails."""

import argparse
import logging
import sys
import time
from collections import Counter, defaultdict

from tests.fuzz.draw import draw
from tests.fuzz.hunt import Found, hunt
from tests.fuzz.judge import judge
from tests.fuzz.options import limits, parser
from tests.fuzz.program import printed
from tests.fuzz.shrink import shrink


def main() -> int:
    logging.disable(logging.ERROR)
    options = parser().parse_args()
    if options.show is not None:
        program = draw(f"{options.seed}/{options.show}", limits(options))
        print(printed(program))
        print(judge(program))
        return 0
    started = time.monotonic()
    indices = range(options.first, options.first + options.programs)
    arguments = [f"--seed={options.seed}", f"--steps={options.steps}"]
    found = [f for f in hunt(indices, arguments, options.jobs)]
    counts = Counter(f.outcome.kind for f in found)
    print(f"{len(found)} programs in {time.monotonic() - started:.0f} s:", dict(counts))
    failed = [f for f in found if not f.outcome.is_fine]
    _report(failed, options)
    return 1 if failed else 0


def _report(failed: list[Found], options: argparse.Namespace) -> None:
    """Each cause with how often it was met, and its smallest programs."""
    causes: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for each in failed:
        causes[each.outcome.kind, each.outcome.cause].append(each)
    for (kind, cause), group in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"\n== {len(group)} times {kind}: {cause}", [f.index for f in group][:20])
        # Wrong numbers have no message to group them by.
        for each in group[: None if kind.startswith("wrong") else options.shrink]:
            program = draw(f"{options.seed}/{each.index}", limits(options))
            outcome = each.outcome
            if kind not in ("crash", "hangs"):
                program = shrink(program, outcome)
                outcome = judge(program)
            print(f"-- {each.index}: {outcome.detail[:400]}\n{printed(program)}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
