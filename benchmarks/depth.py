"""How conversion time grows with a network's depth: 1, 4 and 16 times as deep.

    python benchmarks/depth.py [--rounds 3] [--jax2onnx PYTHON] [--json FILE] [--plot FILE.png]

Three networks with random weights, each in blocks that repeat. `exponent` is that of the growth
from the second depth to the third: 1 is linear in the number of equations. PYTHON is the
interpreter of an environment with `equinox` and `jax2onnx`, which then converts the same networks.
`--plot` needs matplotlib.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import depth_networks

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


def exponent(rows: list[Row]) -> float:
    """Of seconds over equations, between the last two depths."""
    before, after = rows[-2:]
    growth = math.log(after["seconds"] / before["seconds"])
    return growth / math.log(after["equations"] / before["equations"])


def plot(table: dict[str, list[Row]], file: Path) -> None:
    """Seconds over equations, both in logarithms: parallel to the dotted line is linear."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for label, rows in table.items():
        style = "--" if label.startswith("jax2onnx") else "-"
        xs, ys = [row["equations"] for row in rows], [row["seconds"] for row in rows]
        axes.plot(xs, ys, style, marker="o", label=label)
    left, right = axes.get_xlim()
    low = min(row["seconds"] for rows in table.values() for row in rows) / 2
    axes.plot([left, right], [low, low * right / left], ":", color="grey", label="linear")
    axes.set(xscale="log", yscale="log", xlabel="equations traced by JAX", ylabel="seconds")
    axes.set_title("Conversion time over depth (1, 4 and 16 times)")
    axes.legend()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jax2onnx", metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    asked = parser.parse_args()
    makers = {"ours": sys.executable} | ({"jax2onnx": asked.jax2onnx} if asked.jax2onnx else {})
    table: dict[str, list[Row]] = {}
    for network in depth_networks.NETWORKS:
        for maker, python in makers.items():
            label = f"{maker}, {network}"
            found = []
            for depth in DEPTHS:
                rows = [measure(python, maker, network, depth) for _ in range(asked.rounds)]
                if (row := fastest(rows)) is None:
                    print(f"{label:24} depth {depth:3}: not converted in {PATIENCE} s", flush=True)
                    break
                found.append(row)
                sizes = f"{row['equations']:7} equations {row['nodes']:6} nodes"
                print(f"{label:24} depth {depth:3}: {sizes} {row['seconds']:8.2f} s", flush=True)
            table[label] = found
            if len(found) > 1:
                print(f"{label:24} exponent {exponent(found):.2f}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(table, indent=2) + "\n")
    if asked.plot:
        plot(table, asked.plot)


if __name__ == "__main__":
    main()
