"""`python -m tests.siege --minutes 20 --seed 1`; ends with 1 if anything is wrong."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.siege.steps import Worst, besieged, note
from tests.siege.world import prepare, watched

STEPS = 12


def main() -> bool:
    parser = argparse.ArgumentParser(prog="python -m tests.siege", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    parser.add_argument("--worlds", type=int, help="how many at most")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    worst: Worst = {}
    number, wrong, commands = options.first, 0, 0
    with tempfile.TemporaryDirectory() as folder, watched() as run:
        template = prepare(Path(folder), run)
        last = options.first + (options.worlds or sys.maxsize)
        while time.monotonic() < end and number < last:
            place = Path(folder) / f"world{number}"
            siege = besieged(run, template, place, f"{options.seed}/{number}", STEPS)
            commands += sum(line.startswith("zoo ") for line in siege.history)
            for name, most in siege.worst.items():
                note(worst, name, most)
            if "WRONG" in siege.history[-1]:
                wrong += 1
                print(f"world {options.seed}/{number}", *siege.history, sep="\n  ", flush=True)
            shutil.rmtree(place, ignore_errors=True)
            number += 1
    for name, (seconds, megabytes) in sorted(worst.items()):
        print(f"{name:<18} {seconds:6.1f} s {megabytes:7.0f} MB at most")
    print(f"{number - options.first} worlds, {commands} commands, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
