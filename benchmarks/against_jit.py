"""Compare the speed of files with `jax.jit` of the same programs.

python benchmarks/against_jit.py [--groups loops draws] \\ [--json
benchmarks/results/performance.json] python benchmarks/performance.py
benchmarks/results/performance.json

Each program is converted. ONNX Runtime and XLA then run it in turns in one process. The time of
each is that of its fastest run. The ratio is ONNX Runtime's time divided by XLA's. XLA gets arrays
of JAX, ONNX Runtime those of numpy.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

import converter
from benchmarks.jit_programs import PROGRAMS, Program
from benchmarks.performance import SIZES, Row, key
from zoo.export.timing.rounds import as_task, measure_interleaved, open_idle_session

THREADS = 2
SECONDS = 0.4
"""Total time for the runs of a program, unless its smallest number of rounds takes longer."""

FEWEST, MOST = 8, 400
"""Smallest and largest number of rounds."""


def measure(program: Program, size: str) -> Row:
    """Return the milliseconds of both, their ratio, the seconds of the conversion, and the number
    of nodes."""
    fn, inputs = program.make(program.sizes[SIZES.index(size)])
    specs = [(np.shape(x), np.asarray(x).dtype) for x in inputs]
    jax.clear_caches()
    began = time.perf_counter()
    export = converter.to_onnx(fn, specs)
    seconds = time.perf_counter() - began
    data = ir.to_proto(export.model).SerializeToString()
    live = open_idle_session(data, THREADS)
    pairs = zip(live.get_inputs(), inputs, strict=True)
    feeds = {graph_input.name: np.asarray(x) for graph_input, x in pairs}
    compiled, jit_inputs = jax.jit(fn), [jnp.asarray(x) for x in inputs]
    tasks = {
        "file": as_task(live, feeds),
        "jit": lambda: jax.block_until_ready(compiled(*jit_inputs)),
    }
    for task in tasks.values():
        task()
    began = time.perf_counter()
    for task in tasks.values():
        task()
    rounds = int(np.clip(SECONDS / (time.perf_counter() - began), FEWEST, MOST))
    milliseconds = {
        name: 1e3 * min(seconds_of_runs)
        for name, seconds_of_runs in measure_interleaved(tasks, rounds).items()
    }
    return {
        "group": program.group,
        "name": program.name,
        "size": size,
        "jit_ms": round(milliseconds["jit"], 4),
        "file_ms": round(milliseconds["file"], 4),
        "ratio": round(milliseconds["file"] / milliseconds["jit"], 2),
        "nodes": export.report.nodes,
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", nargs="+", default=[*dict.fromkeys(p.group for p in PROGRAMS)])
    parser.add_argument("--only", default="", help="run only programs whose names contain this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="performance.json to update")
    options = parser.parse_args()
    for program in PROGRAMS:
        if program.group not in options.groups or options.only not in program.name:
            continue
        rows = [measure(program, size) for size in SIZES]
        for row in rows:
            print(*(f"{name} {value}" for name, value in row.items()), sep=", ", flush=True)
        if options.json:
            record(options.json, rows)


def record(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows into the JSON file. They replace earlier rows of the same programs."""
    content = json.loads(path.read_text())
    table = {key(row): row for row in (*content.get("jit", ()), *rows)}
    keys = [(program.group, program.name, size) for program in PROGRAMS for size in SIZES]
    content["jit"] = [table[key_of_row] for key_of_row in keys if key_of_row in table]
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
