"""What the user asks for, read from the text of options and checked before any work starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zoo.entry import ModelInfo
from zoo.errors import BadOutput, BadRequest
from zoo.registry import info
from zoo.staging import manifest_path, sidecar_path

Layout = Literal["4d", "3d"]


@dataclass(frozen=True)
class Seed:
    """Random weights."""

    value: int


Choice = Literal["auto"] | Seed | Path
"""Weights: from the usual places, random, or from a file."""


@dataclass(frozen=True)
class Request:
    """A checked request. `batch` is None where the batch size stays open in the file."""

    model: ModelInfo
    opsets: tuple[int, ...]
    weights: Choice
    size: tuple[int, int]
    batch: int | None
    layout: Layout
    targets: tuple[Path, ...]
    verify: bool
    offline: bool = False


def read_request(
    model: str,
    *,
    opsets: Sequence[int],
    supported: range,
    weights: str,
    size: str | None,
    batch: str,
    layout: Layout,
    out: Path | None,
    force: bool,
    verify: bool,
    offline: bool = False,
) -> Request:
    """Check all options. **Raises** a `ZooError` for the first that makes no sense."""
    entry = info(model)
    opsets = tuple(dict.fromkeys(opsets))
    for opset in opsets:
        if opset not in supported:
            raise BadRequest(
                f"--opset {opset} is not supported: choose from {supported[0]} to {supported[-1]}."
            )
    targets = read_targets(entry.name, opsets, out)
    for target in targets:
        check_free(target, force)
    return Request(
        model=entry,
        opsets=opsets,
        weights=read_weights(weights),
        size=read_size(size, entry),
        batch=read_batch(batch),
        layout=layout,
        targets=targets,
        verify=verify,
        offline=offline,
    )


def read_size(text: str | None, entry: ModelInfo) -> tuple[int, int]:
    """(height, width) from `224` or `256x384`; the model's own size from None."""
    if text is None:
        return entry.preprocessing.size
    stride = entry.config.stride
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text, re.ASCII)
    if not found:
        raise BadRequest(f"--size {text} is no size: write one such as 224, or 256x384 (HxW).")
    height, width = int(found[1]), int(found[2] or found[1])
    if not height or not width or height % stride or width % stride:
        raise BadRequest(
            f"--size {text} does not fit {entry.name}: height and width must be positive "
            f"multiples of its patch size, {stride}."
        )
    return height, width


def read_batch(text: str) -> int | None:
    """None from `dynamic`, else the number."""
    if text == "dynamic":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise BadRequest(f"--batch {text} is no batch size: write `dynamic` or a positive number.")
    return int(text)


def read_weights(text: str) -> Choice:
    """`auto`, `random`, `random:SEED`, or the path of a file."""
    if text == "auto":
        return "auto"
    if text == "random":
        return Seed(0)
    if text.startswith("random:"):
        seed = text.removeprefix("random:")
        if not re.fullmatch(r"\d+", seed, re.ASCII):
            raise BadRequest(f"--weights {text} has no seed: write a number, as in `random:7`.")
        return Seed(int(seed))
    return Path(text).expanduser()


def read_targets(name: str, opsets: tuple[int, ...], out: Path | None) -> tuple[Path, ...]:
    """The `.onnx` file to write for each opset."""
    if out is not None and out.suffix == ".onnx":
        if len(opsets) > 1:
            raise BadRequest(
                f"--out {out} names one file for {len(opsets)} opsets: name a folder instead."
            )
        return (out,)
    folder = out or Path()
    return tuple(folder / f"{name}-opset{opset}.onnx" for opset in opsets)


def check_free(target: Path, force: bool) -> None:
    """Refuse to write over an earlier export unless told to."""
    for path in (target, manifest_path(target), sidecar_path(target)):
        if path.is_dir():
            raise BadOutput(f"{path} is a folder: name another place with --out.")
        if path.exists() and not force:
            raise BadOutput(f"{path} exists already: replace it with --force, or use --out.")
