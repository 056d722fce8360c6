"""What can be asked of the fuzzer on the command line."""

import argparse

from tests.fuzz.pool import SIZES, Limits


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    found.add_argument("--programs", type=int, default=300, help="how many")
    found.add_argument("--first", type=int, default=0, help="the index of the first")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--jobs", type=int, default=1, help="worker processes")
    found.add_argument("--steps", type=int, default=12, help="at most so many steps in each")
    found.add_argument("--shrink", type=int, default=3, help="so many of each cause are shrunk")
    found.add_argument("--show", type=int, help="print the program of this index, and judge it")
    return found


def limits(options: argparse.Namespace) -> Limits:
    return Limits((2, options.steps), SIZES)
