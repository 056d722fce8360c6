"""Count the branches, loop turns and index bounds of all programs that the verification reaches.

python benchmarks/branches.py [--only WORDS] [--every N] [--check] [--list]

For each program of ``tests/programs`` the program counts the sides that the basic samples take (one
sample for each distribution and each extreme size), and the sides that all samples take, with those
of steering. With ``--check`` the exported file is also verified on drawn inputs. The processor time
of that is printed, and the programs whose files do not pass. ``--every 4`` uses every fourth
program. ``--list`` prints the sides that no sample takes.
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
from converter.verify.noise import PerturbedEvaluation
from converter.verify.samples import draw_basic_samples
from converter.verify.steering import draw_steered_samples, measure_coverage
from tests.conformance import Case
from tests.programs.table import PROGRAMS
from zoo.common.runtime import ERRORS

REFUSED = (NotImplementedError, TypeError, ValueError, converter.ConverterError, *ERRORS)
"""Errors that JAX, the converter or ONNX Runtime raise for a program or for drawn inputs."""

PROGRAMS_PER_CACHE = 100
"""Number of programs after which JAX's compiled functions are deleted. Each uses memory mappings,
and the system limits their number in a process."""


@dataclass(frozen=True)
class Row:
    """Number of sides of a program, and the numbers that basic samples and all samples take."""

    name: str
    sides: int
    basic: int
    steered: int
    samples: int
    untaken: Sequence[str]
    seconds: float | None = None
    failure: str = ""


def measure_program(name: str, case: Case, check: bool) -> Row:
    """Return the counts of one program. `check` is whether to verify the file too."""
    with jax.enable_x64(case.x64):
        export = case.export()
        params = PerturbedEvaluation(export.retrace).params
        basic = measure_coverage(
            export.retrace(), params, [x for _, x in draw_basic_samples(export.graph)]
        )
        drawn, full = draw_steered_samples(export.graph, export.retrace(), params)
        seconds, failure = None, ""
        if check:
            start = time.process_time()
            with suppress(*REFUSED):
                verdict = converter.check(export, case.call)
                failure = "" if verdict.passed else str(verdict).splitlines()[0]
            seconds = time.process_time() - start
    counts = len(full.sides), int(basic.reached.sum()), int(full.reached.sum())
    return Row(name, *counts, len(drawn), full.untaken(), seconds, failure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="use only programs whose names begin with this")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [name for name in PROGRAMS if name.startswith(options.only)][:: options.every]
    rows = list[Row]()
    for index, name in enumerate(names):
        if index % PROGRAMS_PER_CACHE == 0:
            print(f"{index} of {len(names)}: {name}", file=sys.stderr, flush=True)
            jax.clear_caches()
        try:
            row = measure_program(name, PROGRAMS[name], options.check)
        except REFUSED as error:
            print(f"left out: {name}: {str(error).splitlines()[0]}", flush=True)
            continue
        rows.append(row)
        if row.failure:
            print(f"does not pass: {name}: {row.failure}", flush=True)
        for sentence in row.untaken if options.list else ():
            print(f"{name}: {sentence}", flush=True)
    rows_with_sides = [row for row in rows if row.sides]
    sides = sum(row.sides for row in rows_with_sides)
    basic = sum(row.basic for row in rows_with_sides)
    steered = sum(row.steered for row in rows_with_sides)
    complete = [sum(row.basic == row.sides for row in rows_with_sides)]
    complete += [sum(row.steered == row.sides for row in rows_with_sides)]
    print(f"{len(rows)} programs, {len(rows_with_sides)} of them with {sides} sides")
    print(f"taken by the basic samples: {basic}, all of {complete[0]} programs")
    print(f"taken by all samples:       {steered}, all of {complete[1]} programs")
    if options.check:
        print(f"verification: {sum(row.seconds or 0 for row in rows):.0f} s of the processor")


if __name__ == "__main__":
    main()
