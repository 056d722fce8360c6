"""Counts the branches, loop turns and index bounds of all programs that verification reaches.

    python benchmarks/branches.py [--only WORDS] [--every N] [--check] [--list]

For each program of ``tests/programs`` it prints how many of its sides the basic samples take (one
of each distribution and of each extreme size) and how many the steered ones take besides. With
``--check`` the exported file is verified on drawn inputs too, and the processor's seconds of that
are printed; ``--every 4`` takes each fourth program; ``--list`` prints what remains.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax

import converter
from converter.verify.noise import Noise
from converter.verify.samples import samples
from converter.verify.steering import coverage_of, steered_samples
from tests.conformance import Case
from tests.programs.table import PROGRAMS
from zoo.common.runtime import ERRORS

REFUSED = (NotImplementedError, TypeError, ValueError, converter.ConverterError, *ERRORS)
"""What JAX, the converter or ONNX Runtime raises for a program, or for inputs that are drawn."""


@dataclass(frozen=True)
class Row:
    """Sides of a program: how many there are, how many basic and all samples take."""

    name: str
    sides: int
    basic: int
    steered: int
    samples: int
    untaken: Sequence[str]
    seconds: float | None = None


def measured(name: str, case: Case, check: bool) -> Row:
    """Measure one program."""
    with jax.enable_x64(case.x64):
        export = case.export()
        params = Noise(export.retrace).params
        basic = coverage_of(export.retrace(), params, [x for _, x in samples(export.graph)])
        drawn, full = steered_samples(export.graph, export.retrace(), params)
        seconds = None
        if check:
            start = time.process_time()
            with suppress(*REFUSED):
                converter.check(export, case.call)
            seconds = time.process_time() - start
    counts = len(full.sides), int(basic.reached.sum()), int(full.reached.sum())
    return Row(name, *counts, len(drawn), full.untaken(), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words that a program's name begins with")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [name for name in PROGRAMS if name.startswith(options.only)][:: options.every]
    rows = list[Row]()
    for name in names:
        try:
            row = measured(name, PROGRAMS[name], options.check)
        except REFUSED as error:
            print(f"left out: {name}: {str(error).splitlines()[0]}", flush=True)
            continue
        rows.append(row)
        for sentence in row.untaken if options.list else ():
            print(f"{name}: {sentence}", flush=True)
    having = [row for row in rows if row.sides]
    counts = [(row.sides, row.basic, row.steered) for row in having]
    sides, basic, steered = map(sum, zip(*counts, strict=True))
    complete = [sum(row.basic == row.sides for row in having)]
    complete += [sum(row.steered == row.sides for row in having)]
    print(f"{len(rows)} programs, {len(having)} of them with {sides} sides")
    print(f"taken by the basic samples: {basic}, all of {complete[0]} programs")
    print(f"taken by all samples:       {steered}, all of {complete[1]} programs")
    if options.check:
        print(f"verification: {sum(row.seconds or 0 for row in rows):.0f} s of the processor")


if __name__ == "__main__":
    main()
