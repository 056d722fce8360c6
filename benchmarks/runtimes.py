"""The table of `docs/how-to/runtimes.md`: which file runs where, how exactly, and how fast.

    python benchmarks/runtimes.py docs/how-to/runtimes.md

Needs tract, OpenCV and IREE (the extra `[test]`), and about ten minutes.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import zoo
from tests.judges.runtimes import Apart
from tests.runtimes import load
from tests.runtimes.networks import NETWORKS, furthest, pixels, size_of, write
from tests.seeded import values_of
from tests.synthetic import make_image
from zoo.architectures.builder import abstract
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.manifest.choices import Precision, Target

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8", "q4")
TIMED = ("dinov3_vits16", "dinov3_convnext_tiny")
ROUNDS = 5
TITLES = {"tract": "tract", "opencv": "OpenCV, new engine", "iree": "IREE"}
MARKS = ("<!-- runtimes: written by benchmarks/runtimes.py -->", "<!-- end -->")


@dataclass(frozen=True)
class Kind:
    """A way to write a file."""

    name: str
    target: Target
    opset: int
    fixed: bool = False

    def signature(self, size: tuple[int, int]) -> Signature:
        return Signature(size, 1) if self.fixed else Signature(None, None)


USUAL = (
    Kind("`model.onnx`: opset 18, open", "onnxruntime", 18),
    Kind("`model_fused.onnx`: opset 23, open", "onnxruntime", 23),
)
PORTABLE = Kind("`--target portable --batch 1`", "portable", 18, fixed=True)


def kinds(runtime: Target) -> tuple[Kind, ...]:
    """The usual files, those for the runtime and the portable ones."""
    own = f"`--target {runtime}`"
    return (
        *USUAL,
        Kind(f"{own}, open", runtime, 23),
        Kind(f"{own} --batch 1".replace("` --batch 1", " --batch 1`"), runtime, 23, fixed=True),
        PORTABLE,
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
    times = np.array([[_seconds(run, images) for run in runs] for _ in range(ROUNDS)])
    theirs, ours = times.min(0)
    return f"{theirs / ours:.1f}"


def _seconds(run: load.Run, images: list[np.ndarray]) -> float:
    """The fastest of three in a row."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        run(images)
        found.append(time.perf_counter() - start)
    return min(found)


def rows(runtime: Target, folder: Path) -> Iterator[list[str]]:
    """A row for each kind of file."""
    with closing(Apart(runtime)) as run:
        for kind in kinds(runtime):
            errors = [error(run, kind, precision, folder) for precision in PRECISIONS]
            times = [ratio(runtime, model, kind, folder) if kind.fixed else "" for model in TIMED]
            row = [f"{TITLES[runtime]} {version(load.PACKAGES[runtime])}", kind.name]
            yield [*row, *errors, *times]


def table(folder: Path) -> Iterator[str]:
    """All of it, in Markdown."""
    yield "| " + " | ".join(["runtime", "file", *PRECISIONS, "ViT-S/16", "ConvNeXt-T"]) + " |"
    yield "|---|---" + "|---:" * (len(PRECISIONS) + len(TIMED)) + "|"
    for runtime in load.RUNTIMES:
        for row in rows(runtime, folder):
            print(*row, sep=" | ", flush=True)
            yield "| " + " | ".join(row) + " |"
    yield f"\nMeasured on {date.today()}, with ONNX Runtime {version('onnxruntime')}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    with TemporaryDirectory() as folder:
        made = "\n".join([MARKS[0], "", *table(Path(folder)), "", MARKS[1]])
    between = "{}.*?{}".format(*map(re.escape, MARKS))
    page.write_text(re.sub(between, lambda _: made, page.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main()
