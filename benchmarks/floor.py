"""The time of whole files over that of their matrix products alone, which no file can be below.

    python benchmarks/floor.py [FILE ...] [--model dinov3_vits16] [--batches 1 8] [--rounds 25]

Without files the model is exported at opset 23 in both layouts of attention and with open sizes,
and at opset 18. All files, and the products of the first one, run once in every round; the fastest
run of each counts. A busy machine slows all alike, so that ratios stay near those of a quiet one.
"""

import argparse
import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weights.progress import Quiet
from zoo.bench.inputs import BenchOptions
from zoo.bench.measure import measure_files
from zoo.cli.app import app
from zoo.cli.console import call

VARIANTS = {
    "opset 23, 3-D": "--opset 23",
    "opset 23, 4-D": "--opset 23 --attention-layout 4d",
    "opset 18": "--opset 18",
    "opset 23, open sizes": "--opset 23 --size dynamic",
}


def exported(model: str, folder: Path) -> list[Path]:
    """The model's files with random weights, one a variant."""
    files: list[Path] = []
    for name, options in VARIANTS.items():
        out = folder / name
        command = ["export", model, "--weights", "random", *options.split(), "--no-verify"]
        with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
            code = call(app, [*command, "--out", str(out)])
        if code:
            raise SystemExit(code)
        files += out.glob("*.onnx")
    return files


def compare(files: Sequence[Path], options: BenchOptions) -> None:
    """Print a row for every file."""
    found = measure_files(files, options, Quiet())
    total = found.floor.total
    print(f"batch {options.batch}, {options.threads} threads: products {1e3 * total:.2f} ms")
    for file, contender in zip(files, found.contenders, strict=True):
        fastest = contender.fastest
        print(f"  {fastest / total:.3f}  {1e3 * fastest:8.2f} ms  {file.parent.name}/{file.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = asked.files or exported(asked.model, Path(folder))
        for batch in asked.batches:
            compare(files, BenchOptions(batch=batch, threads=asked.threads, rounds=asked.rounds))


if __name__ == "__main__":
    main()
