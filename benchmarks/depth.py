"""How conversion time grows with a network's depth: 1, 4 and 16 times as deep.

    python benchmarks/depth.py [--rounds 3] [--jax2onnx PYTHON]

Three networks with random weights, each in blocks that repeat. `exponent` is that of the growth
from the second depth to the third: 1 is linear in the number of equations. PYTHON is the
interpreter of an environment with `equinox` and `jax2onnx`, which then converts the same networks.
`peers.py` measures the same, and `performance.py` draws it.
"""

import argparse
import json
import math
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import depth_networks
from depth_networks import NETWORKS

DEPTHS = (1, 4, 16)
PATIENCE = 600
"""Seconds that one conversion may take."""

Row = dict[str, Any]


def measure(python: str, maker: str, network: str, depth: int) -> Row | None:
    """Seconds and sizes of one conversion in a process of its own; None if it does not end."""
    script = str(Path(depth_networks.__file__))
    command = [python, script, maker, network, str(depth)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def fastest(rows: list[Row | None]) -> Row | None:
    """The run that took the least; None if one did not end."""
    ended = [row for row in rows if row is not None]
    return min(ended, key=lambda row: row["seconds"]) if len(ended) == len(rows) else None


def deepen(python: str, maker: str, network: str, rounds: int) -> list[Row]:
    """The fastest conversion at each depth, up to the first that does not end."""
    found = []
    for depth in DEPTHS:
        row = fastest([measure(python, maker, network, depth) for _ in range(rounds)])
        if row is None:
            break
        found.append(row)
    return found


def exponent(rows: list[Row]) -> float:
    """Of seconds over equations, between the last two depths."""
    before, after = rows[-2:]
    growth = math.log(after["seconds"] / before["seconds"])
    return growth / math.log(after["equations"] / before["equations"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jax2onnx", metavar="PYTHON")
    asked = parser.parse_args()
    makers = {"ours": sys.executable} | ({"jax2onnx": asked.jax2onnx} if asked.jax2onnx else {})
    for network, (maker, python) in product(NETWORKS, makers.items()):
        label = f"{maker}, {network}"
        rows = deepen(python, maker, network, asked.rounds)
        for depth, row in zip(DEPTHS, rows, strict=False):
            sizes = f"{row['equations']:7} equations {row['nodes']:6} nodes"
            print(f"{label:24} depth {depth:3}: {sizes} {row['seconds']:8.2f} s", flush=True)
        if len(rows) < len(DEPTHS):
            print(f"{label:24} depth {DEPTHS[len(rows)]:3}: not converted in {PATIENCE} s")
        if len(rows) > 1:
            print(f"{label:24} exponent {exponent(rows):.2f}", flush=True)


if __name__ == "__main__":
    main()
