"""Compare the files of `zoo build` with those of other exporters: their speed, and the cost of the
export.

python benchmarks/peers.py --json benchmarks/results/performance.json \\ [--torch PYTHON] [--optimum
PYTHON] [--jax2onnx PYTHON] [--rounds 25] [--busy] python benchmarks/performance.py
benchmarks/results/performance.json

Each PYTHON is the interpreter of a separate environment: with `torch transformers onnxscript`, with
`optimum-onnx[onnxruntime] torch`, and with `jax2onnx` and this package's dependencies. An exporter
without an interpreter is left out.

Each result is written to the JSON file at once. A run that was interrupted continues after the last
result. Files are kept in `--files`. All files of a model and the matrix products of the first file
run in turns in one process. With `--busy`, for a machine with other work, processor time is
measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import onnx_ir as ir

import converter
import zoo
from weights import random_weights
from weights.progress import Quiet
from weights.writers.items import items_for
from zoo.apps.bench.bench_options import BenchOptions
from zoo.apps.bench.measure import measure_files
from zoo.checkpoints.convert import naming_to_write, write_transformers_folder
from zoo.checkpoints.load import model_shapes
from zoo.common import runtime
from zoo.common.errors import first_line
from zoo.export.assemble.plan import DEFAULT_VARIANTS, VARIANTS
from zoo.export.timing.rounds import describe_machine
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values

MODELS = (
    "dinov3_vits16",
    "dinov3_vitb16",
    "dinov2_vits14",
    "dinov3_convnext_tiny",
    "siglip2_vitb16_224",
)
BATCHES, THREADS = (1, 8), (1, 2)
SIDE = 224
ZOO_VARIANTS = tuple(name for name in DEFAULT_VARIANTS if VARIANTS[name].precision != "fp16")
"""Variants of the zoo that are measured. No CPU computes in float16."""

PEERS = {
    "torch, opset 23": ("torch", 23),
    "torch, opset 18": ("torch", 18),
    "Optimum": ("optimum", 18),
    "jax2onnx": ("jax2onnx", 23),
}
LIBRARIES = {
    "zoo": ("jax", "onnxruntime", "onnx-ir", "numpy"),
    "torch": ("torch", "transformers"),
    "optimum": ("optimum-onnx", "torch", "transformers"),
    "jax2onnx": ("jax2onnx", "jax"),
}
MAKERS = Path(__file__).with_name("peer_makers.py")
PATIENCE = 1200
"""Largest time of an export in seconds."""

BUSY = (
    "Preliminary: the machine was busy with other work. Times of runs are those of one thread's "
    "processor, and seconds on the clock say more about that work than about the exporters."
)

Row = dict[str, Any]


def run_exporter(command: Sequence[str]) -> Row:
    """Run an export in a process. Return what it takes, or the last line of its error message.

    The values are the wall-clock time and the processor time of all processors in seconds, and the
    memory in megabytes. A busy machine changes the processor time less.
    """
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": os.getcwd(), "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    if status:
        return {"failed": lines[-1][:300] if lines else f"status {status}"}
    processors = usage.ru_utime + usage.ru_stime
    peak = round(usage.ru_maxrss * 1024 / 1e6)
    return {"seconds": round(seconds, 2), "processors": round(processors, 2), "peak_mb": peak}


def write_checkpoint(model: str, folder: Path) -> None:
    """Write random weights in a form that transformers and the zoo can load."""
    entry = zoo.info(model)
    published = naming_to_write(entry, "huggingface")
    leaves = model_shapes(published.config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    items = items_for(published.naming, random_weights(leaves, 0).arrays, leaves)
    write_transformers_folder(folder, items, entry, Quiet())


def export_tasks(model: str, folder: Path, pythons: dict[str, str]) -> dict[str, Callable[[], Row]]:
    """Return a function for each file of a model that exports the file and returns a row with its
    description."""
    checkpoint = folder / "checkpoint"
    command, arguments = [sys.executable, "-m", "zoo"], [model, "--weights", str(checkpoint)]
    arguments += ["--size", str(SIDE), "--out", str(folder), "--force"]
    build = [*command, "build", *arguments, *(f"--variant={name}" for name in ZOO_VARIANTS)]
    export = [*command, "export", *arguments, "--no-verify"]
    file = folder / f"{model}-opset23.onnx"
    tasks: dict[str, Callable[[], Row]] = {
        "zoo export": lambda: run_exporter(export) | describe_file(file, model, checkpoint),
        "zoo build": lambda: run_exporter(build),
    }
    for name in ZOO_VARIANTS:
        path = folder / model / VARIANTS[name].path
        tasks[f"zoo, {name}"] = lambda path=path: describe_file(path, model, checkpoint)
    for label, (exporter, opset) in PEERS.items():
        if exporter in pythons:
            path = folder / f"{exporter}-{opset}.onnx"
            command = [pythons[exporter], str(MAKERS), exporter, str(checkpoint), model, str(opset)]
            tasks[label] = lambda command=command, path=path: (
                run_exporter([*command, str(path)]) | describe_file(path, model, checkpoint)
            )
    return tasks


def count_nodes(file: Path, names: Sequence[str]) -> Row:
    """Return the number of nodes of a file, and of its operators with these names."""
    operators = [node.op_type for node in ir.load(file).graph.all_nodes()]
    fused = {name: operators.count(name) for name in names if name in operators}
    return {"nodes": len(operators), "fused": fused}


def describe_file(file: Path, model: str, checkpoint: Path) -> Row:
    """Return the size, the numbers of nodes and the error of a file, or an empty row if there is no
    file."""
    if not file.exists():
        return {}
    parts = [file, *(p for p in (file.with_name(file.name + "_data"),) if p.exists())]
    row: Row = {
        "file": file.relative_to(checkpoint.parent).as_posix(),
        "mb": round(sum(part.stat().st_size for part in parts) / 1e6, 1),
        **count_nodes(file, ("Attention", "RotaryEmbedding")),
    }
    pixels = pixel_values(photographs(2), zoo.info(model).preprocessing, (SIDE, SIDE))
    try:
        session = runtime.session(file)
        (tokens,) = session.run(
            [session.get_outputs()[0].name], {session.get_inputs()[0].name: pixels}
        )
    except runtime.ERRORS as error:
        return row | {"failed": first_line(error)}
    error = converter.compare(np.asarray(tokens), expected_features(model, checkpoint, pixels))
    return row | {"max_abs": error.max_abs, "cosine": error.cosine}


def expected_features(model: str, checkpoint: Path, pixels: np.ndarray) -> np.ndarray:
    """Return the features that JAX computes. They are computed once."""
    cached = checkpoint.with_name("expected.npy")
    if not cached.exists():
        network = zoo.from_pretrained(model, checkpoint)
        run = eqx.filter_jit(lambda network, x: jax.vmap(network)(x).last_hidden_state)
        np.save(cached, np.asarray(run(network, pixels)))
    return np.load(cached)


def measure_speed(
    folder: Path, files: dict[str, Row], batch: int, threads: int, options: argparse.Namespace
) -> Row:
    """Return the times of all files of a model, which run in turns. Files that do not run are left
    out."""
    paths = {
        label: folder / row["file"]
        for label, row in files.items()
        if "file" in row and "failed" not in row and label != "zoo export"
    }
    clock = time.thread_time if options.busy else time.perf_counter
    size = (SIDE, SIDE)
    bench_options = BenchOptions(
        batch=batch, size=size, threads=threads, rounds=options.rounds, clock=clock
    )
    measurements = measure_files([*paths.values()], bench_options, Quiet())
    rows = {
        label: {
            "fastest_ms": round(1e3 * measured.fastest, 3),
            "median_ms": round(1e3 * measured.percentile(50), 3),
            "to_products": round(measured.fastest / measurements.product_times.total, 4),
        }
        for label, measured in zip(paths, measurements.models, strict=True)
    }
    total = round(1e3 * measurements.product_times.total, 3)
    return {"rounds": options.rounds, "products_ms": total, "files": rows}


def header(busy: bool, pythons: Mapping[str, str]) -> Row:
    """Return the date, the machine, and the versions of libraries in this and the other
    environments."""
    script = "import sys; from importlib.metadata import version\n"
    script += "print(*(f'{name} {version(name)}' for name in sys.argv[1:]), sep=', ')"
    peers = {
        exporter: subprocess.check_output([python, "-c", script, *LIBRARIES[exporter]], text=True)
        for exporter, python in pythons.items()
    }
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": describe_machine(),
        "versions": {library: version(library) for library in LIBRARIES["zoo"]},
        "note": BUSY if busy else None,
        "peers": {exporter: versions.strip() for exporter, versions in peers.items()},
    }


def arguments(
    describe_file: str, files: str, rounds: int, kind: str, names: Iterable[str]
) -> argparse.ArgumentParser:
    """Return the parser of the options of a program that measures what its JSON file does not
    contain yet."""
    parser = argparse.ArgumentParser(description=describe_file.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", required=True)
    parser.add_argument("--files", type=Path, metavar="FOLDER", default=Path(files))
    parser.add_argument(f"--{kind}", nargs="+", default=[*names], choices=names, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=rounds)
    busy_help = "count what one thread computes, not how long it waits; the page says so"
    parser.add_argument("--busy", action="store_true", help=busy_help)
    parser.add_argument("--optimum", metavar="PYTHON")
    return parser


class Results:
    """JSON file with the results. Results in the file are not measured again."""

    def __init__(self, path: Path, first: Row) -> None:
        self.path = path
        self.content = json.loads(path.read_text()) if path.exists() else first

    def fill(self, *keys: str, make: Callable[[], Any]) -> None:
        """Measure the result with these keys if it is not in the file, and write it to the file."""
        table = self.content
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        if keys[-1] not in table:
            print(*keys, file=sys.stderr, flush=True)
            table[keys[-1]] = make()
            self.path.write_text(json.dumps(self.content, indent=1) + "\n")


def measure(results: Results, options: argparse.Namespace, pythons: dict[str, str]) -> None:
    """Measure all results that are missing, model by model."""
    for model in options.models:
        folder = options.files / model
        if not (folder / "checkpoint").exists():
            write_checkpoint(model, folder / "checkpoint")
        for label, make in export_tasks(model, folder, pythons).items():
            results.fill("files", model, label, make=make)
        files = results.content["files"][model]
        for batch, threads in product(options.batches, options.threads):
            key = f"batch {batch}, {threads} thread{'s' * (threads > 1)}"
            results.fill(
                *("speed", model, key),
                make=lambda p=folder, b=batch, t=threads, f=files: measure_speed(
                    p, f, b, t, options
                ),
            )


def main() -> None:
    parser = arguments(__doc__, ".cache/peers", 25, "models", MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS)
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--jax2onnx", metavar="PYTHON")
    options = parser.parse_args()
    named = {"torch": options.torch, "optimum": options.optimum, "jax2onnx": options.jax2onnx}
    pythons = {exporter: python for exporter, python in named.items() if python}
    if options.busy:
        options.threads = [1]
    first = header(options.busy, pythons) | {"files": {}, "speed": {}}
    measure(Results(options.json, first), options, pythons)


if __name__ == "__main__":
    main()
