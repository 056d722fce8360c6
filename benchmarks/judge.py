"""Plants faults into every program of `tests/programs`, and writes which share the judge finds.

    python benchmarks/judge.py [--only WORDS] [--each NODES] [--seed N]
                               [--jobs N] [--page docs/concepts/verification.md]

A fault counts if it is larger than 64 times what JAX is off itself. The table goes to the page if
one is named, and those that are not found are listed below it; the exit code is 1 if there are any,
or if a right file is blamed. The seed draws the order of the programs, and an interrupt ends with
the table of those that were done.
"""

import argparse
import os
import random
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.pages import table, with_part
from tests.judges.planted import NOTHING, OUTPUT_FAULTS, Planted, planted
from tests.programs.table import PROGRAMS
from zoo.common.errors import first_line
from zoo.common.runtime import ERRORS

REFUSED = (NotImplementedError, TypeError, *ERRORS)
"""What JAX raises for a program that it does not compile by itself, and ONNX Runtime for indices
that are drawn out of bounds."""

IN_GRAPHS = "an operator is its neighbour"


def table_of(faults: Sequence[Planted]) -> str:
    """How many were planted and found, by kind, and those that were not."""
    counted = [fault for fault in faults if fault.seen]
    kinds = defaultdict[str, Counter[bool]](Counter)
    for fault in counted:
        kinds[fault.kind if fault.kind in OUTPUT_FAULTS else IN_GRAPHS][fault.found] += 1
    rows = [
        [kind, f"{total:,}", f"{kinds[kind][False]:,}"]
        for kind in (*OUTPUT_FAULTS, IN_GRAPHS)
        if (total := kinds[kind].total())
    ]
    operators = len({fault.kind for fault in counted} - OUTPUT_FAULTS.keys())
    right = [fault for fault in faults if fault.kind == NOTHING]
    blamed = [f"`{fault.program}`" for fault in right if fault.found]
    share = 100 * sum(fault.found for fault in counted) / max(len(counted), 1)
    told = [
        *table(["fault", "planted", "not found"], rows),
        f"Planted into {len(right):,} programs, {len(counted):,} in all, of which {share:.2f} % "
        f"were found; {operators} pairs of operators such as `Add` and `Sub`. Right files that are "
        f"blamed: {', '.join(blamed) or 'none'}. Not found:",
        "",
    ]
    lost = defaultdict[str, list[str]](list)
    for fault in counted:
        if not fault.found and fault.kind not in lost[fault.program]:
            lost[fault.program].append(fault.kind)
    named = [f"- `{program}`: {', '.join(passed)}" for program, passed in lost.items()]
    return "\n".join([*told, *(named or ["- none"])])


def faults_of(name: str, each: int) -> tuple[list[Planted], str]:
    """Faults that were planted into a program, and a line about them."""
    warnings.simplefilter("ignore")
    try:
        found = [*planted(name, PROGRAMS[name], each)]
    except REFUSED as error:
        return [], f"left out: {name}: {first_line(error)}"
    wrong = "; ".join(f"{fault.kind} misjudged" for fault in found if fault.is_misjudged)
    return found, f"{name}: {len(found)} planted {wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose names have this in them")
    parser.add_argument("--each", type=int, default=1, help="nodes of each operator of a program")
    parser.add_argument("--seed", type=int, default=0, help="draws the order of the programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--page", type=Path, help="where the table goes")
    asked = parser.parse_args()
    faults: list[Planted] = []
    names = [name for name in PROGRAMS if asked.only in name]
    random.Random(asked.seed).shuffle(names)
    pool = get_context("spawn").Pool(asked.jobs, maxtasksperchild=200)
    with pool, suppress(KeyboardInterrupt):
        for found, said in pool.imap_unordered(partial(faults_of, each=asked.each), names):
            faults += found
            print(said, file=sys.stderr, flush=True)
    written = table_of(sorted(faults, key=lambda fault: [*PROGRAMS].index(fault.program)))
    if asked.page:
        asked.page.write_text(with_part(asked.page.read_text(), "judge", [written]))
    print(written)
    return int(any(fault.is_misjudged for fault in faults))


if __name__ == "__main__":
    sys.exit(main())
