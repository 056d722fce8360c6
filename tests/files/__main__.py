"""`python -m tests.files --format pth --mutations 1000 --seed 7`; ends with 1 if one is wrong.

`--minutes 20` in place of `--mutations` goes on for so long with each format.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.files.formats import FORMATS
from tests.files.hunt import FINE, hunt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.files", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, action="append", help="all if none is named")
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--minutes", type=float, help="for each format, in place of a number")
    parser.add_argument("--first", type=int, default=0, help="the index to begin with")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    for name in options.format or FORMATS:
        began, counts = time.monotonic(), Counter()
        indices = _indices(options, began)
        with tempfile.TemporaryDirectory() as folder:
            for index, outcome in hunt(name, options.seed, indices, Path(folder)):
                counts[outcome if outcome in FINE else "wrong"] += 1
                if outcome not in FINE:
                    print(f"{name} {options.seed}/{index}: {outcome}", flush=True)
        wrong += counts["wrong"]
        print(f"{name}: {dict(counts)} in {time.monotonic() - began:.0f} s", flush=True)
    return 1 if wrong else 0


def _indices(options: argparse.Namespace, began: float) -> Iterable[int]:
    """The numbers of the mutations, until there are enough or the time is up."""
    if options.minutes is None:
        return range(options.first, options.first + options.mutations)
    late = began + 60 * options.minutes
    return itertools.takewhile(lambda _: time.monotonic() < late, itertools.count(options.first))


if __name__ == "__main__":
    sys.exit(main())
