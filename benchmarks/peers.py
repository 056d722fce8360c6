"""What `zoo build` writes beside what other exporters write: speed and export.

    python benchmarks/peers.py --json benchmarks/results/performance.json \\
        [--torch PYTHON] [--optimum PYTHON] [--jax2onnx PYTHON] [--rounds 25] [--busy]
    python benchmarks/performance.py benchmarks/results/performance.json

Each PYTHON is the interpreter of an environment of its own: with `torch transformers onnxscript`,
with `optimum-onnx[onnxruntime] torch`, and with `jax2onnx` and this package's dependencies. An
exporter that is not named is left out.

What was measured is in the JSON file at once, and a run that broke off goes on behind it. Files are
kept in `--files`. All files of a model, and the matrix products of the first, take turns in one
process. With `--busy`, for a machine that has other work, the time of the processor counts.
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
OURS = tuple(name for name in DEFAULT_VARIANTS if VARIANTS[name].precision != "fp16")
"""The files of a folder that are measured; no CPU computes in float16."""

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
"""Seconds that an export may take."""

BUSY = (
    "Preliminary: the machine was busy with other work. Times of runs are those of one thread's "
    "processor, and seconds on the clock say more about that work than about the exporters."
)

Row = dict[str, Any]


def cold(command: Sequence[str]) -> Row:
    """What a process takes, or the last line of what it complained about.

    That is seconds on the clock, seconds of all processors together, which a busy machine changes
    less, and megabytes of memory.
    """
    with tempfile.TemporaryFile() as told:
        began = time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": os.getcwd(), "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen(command, stdout=told, stderr=told, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        told.seek(0)
        lines = told.read().decode(errors="replace").strip().splitlines()
    if status:
        return {"failed": lines[-1][:300] if lines else f"status {status}"}
    processors = usage.ru_utime + usage.ru_stime
    peak = round(usage.ru_maxrss * 1024 / 1e6)
    return {"seconds": round(seconds, 2), "processors": round(processors, 2), "peak_mb": peak}


def write_checkpoint(model: str, folder: Path) -> None:
    """Random weights as transformers and the zoo load them."""
    entry = zoo.info(model)
    published = naming_to_write(entry, "huggingface")
    leaves = model_shapes(published.config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    items = items_for(published.naming, random_weights(leaves, 0).arrays, leaves)
    write_transformers_folder(folder, items, entry, Quiet())


def exports(model: str, place: Path, pythons: dict[str, str]) -> dict[str, Callable[[], Row]]:
    """How to make each file of a model; each is described in a row."""
    checkpoint = place / "checkpoint"
    ours, given = [sys.executable, "-m", "zoo"], [model, "--weights", str(checkpoint)]
    given += ["--size", str(SIDE), "--out", str(place), "--force"]
    build = [*ours, "build", *given, *(f"--variant={name}" for name in OURS)]
    export = [*ours, "export", *given, "--no-verify"]
    file = place / f"{model}-opset23.onnx"
    made: dict[str, Callable[[], Row]] = {
        "zoo export": lambda: cold(export) | described(file, model, checkpoint),
        "zoo build": lambda: cold(build),
    }
    for name in OURS:
        path = place / model / VARIANTS[name].path
        made[f"zoo, {name}"] = lambda path=path: described(path, model, checkpoint)
    for label, (exporter, opset) in PEERS.items():
        if exporter in pythons:
            path = place / f"{exporter}-{opset}.onnx"
            command = [pythons[exporter], str(MAKERS), exporter, str(checkpoint), model, str(opset)]
            made[label] = lambda command=command, path=path: (
                cold([*command, str(path)]) | described(path, model, checkpoint)
            )
    return made


def counted(file: Path, names: Sequence[str]) -> Row:
    """Nodes of a file, and its operators of these names."""
    operators = [node.op_type for node in ir.load(file).graph.all_nodes()]
    fused = {name: operators.count(name) for name in names if name in operators}
    return {"nodes": len(operators), "fused": fused}


def described(file: Path, model: str, checkpoint: Path) -> Row:
    """Size, nodes and exactness of a file, if it is there and runs."""
    if not file.exists():
        return {}
    parts = [file, *(p for p in (file.with_name(file.name + "_data"),) if p.exists())]
    told: Row = {
        "file": file.relative_to(checkpoint.parent).as_posix(),
        "mb": round(sum(part.stat().st_size for part in parts) / 1e6, 1),
        **counted(file, ("Attention", "RotaryEmbedding")),
    }
    pixels = pixel_values(photographs(2), zoo.info(model).preprocessing, (SIDE, SIDE))
    try:
        live = runtime.session(file)
        (tokens,) = live.run([live.get_outputs()[0].name], {live.get_inputs()[0].name: pixels})
    except runtime.ERRORS as error:
        return told | {"failed": runtime.reason(error)}
    error = converter.compare(np.asarray(tokens), expected(model, checkpoint, pixels))
    return told | {"max_abs": error.max_abs, "cosine": error.cosine}


def expected(model: str, checkpoint: Path, pixels: np.ndarray) -> np.ndarray:
    """The features in JAX, computed once."""
    kept = checkpoint.with_name("expected.npy")
    if not kept.exists():
        network = zoo.from_pretrained(model, checkpoint)
        found = eqx.filter_jit(lambda network, x: jax.vmap(network)(x).last_hidden_state)
        np.save(kept, np.asarray(found(network, pixels)))
    return np.load(kept)


def speed(
    place: Path, files: dict[str, Row], batch: int, threads: int, asked: argparse.Namespace
) -> Row:
    """All files of a model beside each other; those that do not run are left out."""
    paths = {
        label: place / row["file"]
        for label, row in files.items()
        if "file" in row and "failed" not in row and label != "zoo export"
    }
    clock = time.thread_time if asked.busy else time.perf_counter
    size = (SIDE, SIDE)
    options = BenchOptions(
        batch=batch, size=size, threads=threads, rounds=asked.rounds, clock=clock
    )
    found = measure_files([*paths.values()], options, Quiet())
    rows = {
        label: {
            "fastest_ms": round(1e3 * each.fastest, 3),
            "median_ms": round(1e3 * each.percentile(50), 3),
            "to_products": round(each.fastest / found.floor.total, 4),
        }
        for label, each in zip(paths, found.contenders, strict=True)
    }
    total = round(1e3 * found.floor.total, 3)
    return {"rounds": asked.rounds, "products_ms": total, "files": rows}


def header(busy: bool, pythons: Mapping[str, str]) -> Row:
    """What was measured where, and with what, as the environments of others say too."""
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
        "peers": {exporter: told.strip() for exporter, told in peers.items()},
    }


def arguments(
    described: str, files: str, rounds: int, kind: str, names: Iterable[str]
) -> argparse.ArgumentParser:
    """Options of a program that measures what is not in its JSON file yet."""
    parser = argparse.ArgumentParser(description=described.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", required=True)
    parser.add_argument("--files", type=Path, metavar="FOLDER", default=Path(files))
    parser.add_argument(f"--{kind}", nargs="+", default=[*names], choices=names, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=rounds)
    told = "count what one thread computes, not how long it waits; the page says so"
    parser.add_argument("--busy", action="store_true", help=told)
    parser.add_argument("--optimum", metavar="PYTHON")
    return parser


class Results:
    """The JSON file: what is in it is not measured again."""

    def __init__(self, path: Path, first: Row) -> None:
        self.path = path
        self.content = json.loads(path.read_text()) if path.exists() else first

    def fill(self, *keys: str, make: Callable[[], Any]) -> None:
        """Measure what is not there yet, and write it down."""
        place = self.content
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        if keys[-1] not in place:
            print(*keys, file=sys.stderr, flush=True)
            place[keys[-1]] = make()
            self.path.write_text(json.dumps(self.content, indent=1) + "\n")


def measure(results: Results, asked: argparse.Namespace, pythons: dict[str, str]) -> None:
    """Everything that is not there yet, model by model."""
    for model in asked.models:
        place = asked.files / model
        if not (place / "checkpoint").exists():
            write_checkpoint(model, place / "checkpoint")
        for label, make in exports(model, place, pythons).items():
            results.fill("files", model, label, make=make)
        files = results.content["files"][model]
        for batch, threads in product(asked.batches, asked.threads):
            key = f"batch {batch}, {threads} thread{'s' * (threads > 1)}"
            results.fill(
                *("speed", model, key),
                make=lambda p=place, b=batch, t=threads, f=files: speed(p, f, b, t, asked),
            )


def main() -> None:
    parser = arguments(__doc__, ".cache/peers", 25, "models", MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS)
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--jax2onnx", metavar="PYTHON")
    asked = parser.parse_args()
    named = {"torch": asked.torch, "optimum": asked.optimum, "jax2onnx": asked.jax2onnx}
    pythons = {exporter: python for exporter, python in named.items() if python}
    if asked.busy:
        asked.threads = [1]
    first = header(asked.busy, pythons) | {"files": {}, "speed": {}}
    measure(Results(asked.json, first), asked, pythons)


if __name__ == "__main__":
    main()
