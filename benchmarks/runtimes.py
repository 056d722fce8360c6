"""Write the table of `docs/how-to/runtimes.md`: which file runs in which runtime, its error and its
speed.

python benchmarks/runtimes.py docs/how-to/runtimes.md

The program needs tract, OpenCV and IREE (the extra `[test]`), and about ten minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import zoo
from benchmarks.pages import table, with_part
from tests.judges.runtimes import Apart
from tests.runtimes import load
from tests.runtimes.networks import NETWORKS, furthest, pixels, size_of, write
from tests.seeded import values_of
from tests.synthetic import make_image
from zoo.architectures.builder import abstract
from zoo.artifacts.choices import Precision, Target
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.export.timing.rounds import measure_interleaved

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8", "q4")
TIMED = ("dinov3_vits16", "dinov3_convnext_tiny")
ROUNDS = 5
TITLES = {"tract": "tract", "opencv": "OpenCV, new engine", "iree": "IREE"}


@dataclass(frozen=True)
class Kind:
    """Target, opset and signature of a file."""

    name: str
    target: Target
    opset: int
    fixed: bool = False

    def signature(self, size: tuple[int, int]) -> Signature:
        return Signature(size, 1) if self.fixed else Signature(None, None)


def file_kinds(runtime: Target) -> tuple[Kind, ...]:
    """Return the usual files, those for the runtime, and the portable ones."""
    return (
        Kind("`model.onnx`: opset 18, open", "onnxruntime", 18),
        Kind("`model_fused.onnx`: opset 23, open", "onnxruntime", 23),
        Kind(f"`--target {runtime}`, open", runtime, 23),
        Kind(f"`--target {runtime} --batch 1`", runtime, 23, fixed=True),
        Kind("`--target portable --batch 1`", "portable", 18, fixed=True),
    )


def largest_error(run: Apart, kind: Kind, precision: Precision, folder: Path) -> str:
    """Return the largest error of the three networks as text, or `no` or `dies` if a network does
    not run."""
    errors = []
    for name, config in NETWORKS.items():
        signature = kind.signature(size_of(config))
        file = write(folder, name, kind.target, signature, precision, kind.opset)
        images = pixels(config, signature.batch or 2)
        outputs = run(file.read_bytes(), [images])
        if isinstance(outputs, BaseException):
            return "dies" if isinstance(outputs, BrokenProcessPool) else "no"
        errors.append(furthest(outputs, load.onnxruntime(file)([images])))
    return f"{max(errors):.0e}"


def time_ratio(runtime: str, model: str, kind: Kind, folder: Path) -> str:
    """Return the fastest run in a runtime divided by the fastest run of the best file in ONNX
    Runtime, as text."""
    config = zoo.info(model).config
    size = zoo.info(model).preprocessing.size
    files = {}
    for file_kind in (kind, Kind("", "onnxruntime", 23, fixed=True)):
        files[file_kind.target] = folder / f"{model}-{file_kind.target}.onnx"
        export = convert_model(
            abstract(config), file_kind.opset, file_kind.signature(size), target=file_kind.target
        )
        export.save(files[file_kind.target], values_of(config))
    runs = (load.RUNTIMES[runtime](files[kind.target]), load.onnxruntime(files["onnxruntime"]))
    images = [make_image(0, *size)[None]]
    # Three runs in a row, because the threads of the other runtime may spin for a while.
    tasks = [lambda run=run: [run(images) for _ in range(3)] for run in runs]
    times = measure_interleaved(dict(enumerate(tasks)), ROUNDS)
    return f"{min(times[0]) / min(times[1]):.1f}"


def table_rows(runtime: Target, folder: Path) -> Iterator[list[str]]:
    """Yield a row for each kind of file."""
    with closing(Apart(runtime)) as run:
        for kind in file_kinds(runtime):
            errors = [largest_error(run, kind, precision, folder) for precision in PRECISIONS]
            times = [
                time_ratio(runtime, model, kind, folder) if kind.fixed else "" for model in TIMED
            ]
            row = [f"{TITLES[runtime]} {version(load.PACKAGES[runtime])}", kind.name]
            yield [*row, *errors, *times]


def measured_table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table, and the date of the measurement."""
    headings = ["runtime", "file", *PRECISIONS, "ViT-S/16", "ConvNeXt-T"]
    rows = (row for runtime in load.RUNTIMES for row in table_rows(runtime, folder))
    yield from table(headings, rows, words=2)
    yield f"Measured on {date.today()}, with ONNX Runtime {version('onnxruntime')}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    with TemporaryDirectory() as folder:
        page.write_text(with_part(page.read_text(), "runtimes", measured_table(Path(folder))))


if __name__ == "__main__":
    main()
