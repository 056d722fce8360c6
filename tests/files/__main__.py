"""`python -m tests.files --format pth --mutations 1000 --seed 7`; ends with 1 if one is wrong."""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.files.formats import FORMATS
from tests.files.hunt import FINE, hunt


def main() -> bool:
    parser = argparse.ArgumentParser(prog="python -m tests.files", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, action="append", help="all if none is named")
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for name in options.format or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            for index, outcome in hunt(name, options.seed, options.mutations, Path(folder)):
                counts[outcome if outcome in FINE else "wrong"] += 1
                if outcome not in FINE:
                    print(f"{name} {options.seed}/{index}: {outcome}", flush=True)
        print(f"{name}, and those before it: {dict(counts)}", flush=True)
    return counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
