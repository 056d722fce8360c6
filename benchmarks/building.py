"""How long `zoo build` takes for some models, beside another checkout of this project.

    python benchmarks/building.py [MODEL …] [--rounds 2] [--against CHECKOUT]

Every folder is built from random weights in a fresh process, by this checkout and by the other in
turns, and removed. The fastest build of each counts: seconds on the clock and of all processors,
and the most memory of its own. Linux only.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from large import watch
from peers import MODELS


def build(checkout: Path, models: list[str]) -> tuple[float, float, int]:
    """Clock, processors, and bytes."""
    before, began = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "zoo", "build", *models, "--weights", "random"]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        with subprocess.Popen(
            [*command, "--out", folder], cwd=checkout, env=environment, stdout=subprocess.DEVNULL
        ) as process:
            peak = watch(process)["RssAnon"]
    seconds, after = time.perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{checkout} does not build {', '.join(models)}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    asked = parser.parse_args()
    places = {"here": Path.cwd()}
    if asked.against:
        places["there"] = asked.against.resolve()
    found = [
        {name: build(place, asked.models) for name, place in places.items()}
        for _ in range(asked.rounds)
    ]
    best = {name: min(each[name] for each in found) for name in places}
    for name, (seconds, used, peak) in best.items():
        ratio = seconds / best["here"][0]
        print(f"{name:6} {seconds:6.1f} s  {used:6.1f} s of processors  {peak / 1e6:,.0f} MB  "
              f"{ratio:.2f} of here")  # fmt: skip


if __name__ == "__main__":
    main()
