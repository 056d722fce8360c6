"""The table of `docs/how-to/runtimes.md`: which file runs where, how exactly, and how fast.

    python benchmarks/runtimes.py docs/how-to/runtimes.md

Needs tract, OpenCV and IREE (the extra `[test]`), and about ten minutes.
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
    """A way to write a file."""

    name: str
    target: Target
    opset: int
    fixed: bool = False

    def signature(self, size: tuple[int, int]) -> Signature:
        return Signature(size, 1) if self.fixed else Signature(None, None)


def kinds(runtime: Target) -> tuple[Kind, ...]:
    """The usual files, those for the runtime and the portable ones."""
    return (
        Kind("`model.onnx`: opset 18, open", "onnxruntime", 18),
        Kind("`model_fused.onnx`: opset 23, open", "onnxruntime", 23),
        Kind(f"`--target {runtime}`, open", runtime, 23),
        Kind(f"`--target {runtime} --batch 1`", runtime, 23, fixed=True),
        Kind("`--target portable --batch 1`", "portable", 18, fixed=True),
    )


def error(run: Apart, kind: Kind, precision: Precision, folder: Path) -> str:
    """The largest of the three networks', or that one does not run."""
    errors = []
    for name, config in NETWORKS.items():
        signature = kind.signature(size_of(config))
        file = write(folder, name, kind.target, signature, precision, kind.opset)
        images = pixels(config, signature.batch or 2)
        found = run(file.read_bytes(), [images])
        if isinstance(found, BaseException):
            return "dies" if isinstance(found, BrokenProcessPool) else "no"
        errors.append(furthest(found, load.onnxruntime(file)([images])))
    return f"{max(errors):.0e}"


def ratio(runtime: str, model: str, kind: Kind, folder: Path) -> str:
    """The fastest run over the fastest one in ONNX Runtime, of the best file for that."""
    config = zoo.info(model).config
    size = zoo.info(model).preprocessing.size
    files = {}
    for each in (kind, Kind("", "onnxruntime", 23, fixed=True)):
        files[each.target] = folder / f"{model}-{each.target}.onnx"
        export = convert_model(
            abstract(config), each.opset, each.signature(size), target=each.target
        )
        export.save(files[each.target], values_of(config))
    runs = (load.RUNTIMES[runtime](files[kind.target]), load.onnxruntime(files["onnxruntime"]))
    images = [make_image(0, *size)[None]]
    # Three in a row, since the threads of the other runtime may wait busily for a while.
    several = [lambda run=run: [run(images) for _ in range(3)] for run in runs]
    times = measure_interleaved(dict(enumerate(several)), ROUNDS)
    return f"{min(times[0]) / min(times[1]):.1f}"


def rows(runtime: Target, folder: Path) -> Iterator[list[str]]:
    """A row for each kind of file."""
    with closing(Apart(runtime)) as run:
        for kind in kinds(runtime):
            errors = [error(run, kind, precision, folder) for precision in PRECISIONS]
            times = [ratio(runtime, model, kind, folder) if kind.fixed else "" for model in TIMED]
            row = [f"{TITLES[runtime]} {version(load.PACKAGES[runtime])}", kind.name]
            yield [*row, *errors, *times]


def measured(folder: Path) -> Iterator[str]:
    """All of it, in Markdown."""
    headings = ["runtime", "file", *PRECISIONS, "ViT-S/16", "ConvNeXt-T"]
    found = (row for runtime in load.RUNTIMES for row in rows(runtime, folder))
    yield from table(headings, found, words=2)
    yield f"Measured on {date.today()}, with ONNX Runtime {version('onnxruntime')}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    with TemporaryDirectory() as folder:
        page.write_text(with_part(page.read_text(), "runtimes", measured(Path(folder))))


if __name__ == "__main__":
    main()
