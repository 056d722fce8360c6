"""Plant faults into every program of `tests/programs`, and count the faults that the judge finds.

python benchmarks/judge.py [--only WORDS] [--each NODES] [--seed N] [--jobs N] [--page
docs/concepts/verification.md]

A fault counts if it is larger than 64 times the error of JAX itself. With `--page` the table is
also written to that page. Faults that are not found are listed below the table. The exit code is 1
if there are any, or if a correct file is reported as wrong. The seed determines the order of the
programs. After an interrupt, the table covers the programs that are done.
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
"""Errors that JAX raises for a program that it cannot compile alone, and ONNX Runtime for indices
that are out of bounds."""

IN_GRAPHS = "an operator is its neighbour"


def table_of(faults: Sequence[Planted]) -> str:
    """Return the numbers of planted and missed faults by kind, and a list of the missed ones."""
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
    lines = [
        *table(["fault", "planted", "not found"], rows),
        f"Planted into {len(right):,} programs, {len(counted):,} in all, of which {share:.2f} % "
        f"were found; {operators} pairs of operators such as `Add` and `Sub`. Right files that are "
        f"blamed: {', '.join(blamed) or 'none'}. Not found:",
        "",
    ]
    missed = defaultdict[str, list[str]](list)
    for fault in counted:
        if not fault.found and fault.kind not in missed[fault.program]:
            missed[fault.program].append(fault.kind)
    missed_lines = [
        f"- `{program}`: {', '.join(kinds_missed)}" for program, kinds_missed in missed.items()
    ]
    return "\n".join([*lines, *(missed_lines or ["- none"])])


def faults_of(name: str, nodes: int) -> tuple[list[Planted], str]:
    """Return the faults that were planted into a program, and a line of text about them.

    `nodes` is the number of nodes of each operator that get a fault.
    """
    warnings.simplefilter("ignore")
    try:
        faults = [*planted(name, PROGRAMS[name], nodes)]
    except REFUSED as error:
        return [], f"left out: {name}: {first_line(error)}"
    wrong = "; ".join(f"{fault.kind} misjudged" for fault in faults if fault.is_misjudged)
    return faults, f"{name}: {len(faults)} planted {wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="use only programs whose names contain this")
    parser.add_argument(
        "--each", type=int, default=1, help="number of faulty nodes for each operator of a program"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the order of the programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--page", type=Path, help="page to write the table to")
    options = parser.parse_args()
    faults: list[Planted] = []
    names = [name for name in PROGRAMS if options.only in name]
    random.Random(options.seed).shuffle(names)
    pool = get_context("spawn").Pool(options.jobs, maxtasksperchild=200)
    with pool, suppress(KeyboardInterrupt):
        for program_faults, line in pool.imap_unordered(
            partial(faults_of, nodes=options.each), names
        ):
            faults += program_faults
            print(line, file=sys.stderr, flush=True)
    report = table_of(sorted(faults, key=lambda fault: [*PROGRAMS].index(fault.program)))
    if options.page:
        options.page.write_text(with_part(options.page.read_text(), "judge", [report]))
    print(report)
    return int(any(fault.is_misjudged for fault in faults))


if __name__ == "__main__":
    sys.exit(main())
