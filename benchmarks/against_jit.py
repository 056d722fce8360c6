"""How fast files are beside the `jax.jit` of what they were made from, program by program.

    python benchmarks/against_jit.py [--groups loops draws] \\
        [--json benchmarks/results/performance.json]
    python benchmarks/performance.py benchmarks/results/performance.json

Each program is converted and runs in ONNX Runtime and in XLA by turns, in one process; the time of
each is its fastest run. The ratio is ONNX Runtime's over XLA's. XLA is given arrays that are its
own already, ONNX Runtime numpy's.
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
from zoo.export.timing.rounds import as_task, measure_interleaved, resting_session

THREADS = 2
SECONDS = 0.4
"""What the runs of a program take together, where its fewest do not take longer."""

FEWEST, MOST = 8, 400
"""Rounds."""


def measure(program: Program, size: str) -> Row:
    """Milliseconds of both, and of the conversion seconds and nodes."""
    fn, inputs = program.make(program.sizes[SIZES.index(size)])
    specs = [(np.shape(x), np.asarray(x).dtype) for x in inputs]
    jax.clear_caches()
    began = time.perf_counter()
    export = converter.to_onnx(fn, specs)
    seconds = time.perf_counter() - began
    data = ir.to_proto(export.model).SerializeToString()
    live = resting_session(data, THREADS)
    pairs = zip(live.get_inputs(), inputs, strict=True)
    feeds = {each.name: np.asarray(x) for each, x in pairs}
    compiled, given = jax.jit(fn), [jnp.asarray(x) for x in inputs]
    tasks = {"file": as_task(live, feeds), "jit": lambda: jax.block_until_ready(compiled(*given))}
    for task in tasks.values():
        task()
    began = time.perf_counter()
    for task in tasks.values():
        task()
    rounds = int(np.clip(SECONDS / (time.perf_counter() - began), FEWEST, MOST))
    found = {name: 1e3 * min(each) for name, each in measure_interleaved(tasks, rounds).items()}
    return {
        "group": program.group,
        "name": program.name,
        "size": size,
        "jit_ms": round(found["jit"], 4),
        "file_ms": round(found["file"], 4),
        "ratio": round(found["file"] / found["jit"], 2),
        "nodes": export.report.nodes,
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", nargs="+", default=[*dict.fromkeys(p.group for p in PROGRAMS)])
    parser.add_argument("--only", default="", help="part of the names of those to run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="performance.json, changed")
    asked = parser.parse_args()
    for program in PROGRAMS:
        if program.group not in asked.groups or asked.only not in program.name:
            continue
        found = [measure(program, size) for size in SIZES]
        for row in found:
            print(*(f"{name} {told}" for name, told in row.items()), sep=", ", flush=True)
        if asked.json:
            record(asked.json, found)


def record(path: Path, found: Sequence[Row]) -> None:
    """Put the rows in the place of those of the same programs."""
    content = json.loads(path.read_text())
    table = {key(row): row for row in (*content.get("jit", ()), *found)}
    known = [(program.group, program.name, size) for program in PROGRAMS for size in SIZES]
    content["jit"] = [table[each] for each in known if each in table]
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
