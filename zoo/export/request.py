"""What the user asks for, read from the text of options and checked before any work starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from zoo.checkpoints.choice import Choice, read_weights
from zoo.errors import BadOutput, BadRequest
from zoo.files.staging import NAME, manifest_path, sidecar_path
from zoo.manifest.choices import Input, Layout, Precision, Target
from zoo.registry.entry import ModelInfo

if TYPE_CHECKING:
    from converter.targets import Target as Runtime


@dataclass(frozen=True)
class Signature:
    """What an exported file takes and gives.

    `size` is (height, width), `batch` the batch size; None where the file leaves it open.
    `layers` are the blocks whose hidden states are outputs as well, from 1 and in order,
    `as_maps` says that those are maps `[batch, dim, height, width]`. With `input` uint8 the file
    resizes images to `size` itself.
    """

    size: tuple[int, int] | None
    batch: int | None
    layers: tuple[int, ...] = ()
    as_maps: bool = False
    input: Input = "float32"


@dataclass(frozen=True)
class Options:
    """Options of `export` as the user wrote them; without opsets the target's own is meant."""

    opsets: Sequence[int] = ()
    weights: str = "auto"
    size: str | None = None
    batch: str = "dynamic"
    layers: str | None = None
    reshape: bool = False
    input: Input = "float32"
    target: Target = "onnxruntime"
    layout: Layout | None = None
    precision: Precision = "fp32"
    out: Path | None = None
    force: bool = False
    keep_inexact: bool = False
    verify: bool = True
    offline: bool = False


@dataclass(frozen=True)
class Request:
    """A checked request. What the options say in no text is taken from them."""

    model: ModelInfo
    options: Options
    opsets: tuple[int, ...]
    weights: Choice
    signature: Signature
    targets: tuple[Path, ...]


def read_request(entry: ModelInfo, options: Options) -> Request:
    """Check all options. **Raises** a `ZooError` for the first that makes no sense."""
    for option, value, known in (
        ("--precision", options.precision, get_args(Precision)),
        ("--input", options.input, get_args(Input)),
    ):
        if value not in known:
            raise BadRequest(f"{option} {value} is not known: choose from {', '.join(known)}.")
    runtime = find_runtime(options.target)
    opsets = read_opsets(options, runtime)
    targets = read_targets(entry.name, opsets, options)
    for target in targets:
        check_free(target, options.force)
    weights, signature = read_weights(options.weights), read_signature(entry, options)
    check_target(runtime, options.precision, signature)
    return Request(entry, options, opsets, weights, signature, targets)


def read_opsets(options: Options, runtime: Runtime) -> tuple[int, ...]:
    """Those that are asked for, each once, or the target's own."""
    opsets = tuple(dict.fromkeys(options.opsets)) or (runtime.opset,)
    known = " to ".join(map(str, sorted({runtime.opsets[0], runtime.opsets[-1]})))
    for opset in opsets:
        if opset not in runtime.opsets:
            raise BadRequest(
                f"--opset {opset} is not supported by --target {runtime.name}: choose {known}."
            )
    return opsets


def check_target(runtime: Runtime, precision: Precision, signature: Signature) -> None:
    """Refuse what the target's runtime cannot run."""
    from zoo.export.precision import CODECS

    operator = CODECS[precision].operator if precision in CODECS else ""
    if not runtime.takes(operator, "float32", runtime.opset):
        raise BadRequest(
            f"--precision {precision} needs {operator}, which --target {runtime.name} lacks."
        )
    instead = {
        "--size 224 instead of dynamic": signature.size is None,
        "--batch 1, or another number": signature.batch is None,
        "--input float32": signature.input == "uint8",
    }
    if wanted := [text for text, is_open in instead.items() if runtime.fixed and is_open]:
        raise BadRequest(
            f"--target {runtime.name} takes fixed sizes alone: write {' and '.join(wanted)}."
        )


def find_runtime(target: Target) -> Runtime:
    """The converter's. Refuse what is none, or no version of it that files are written for."""
    import converter

    try:
        return converter.find_target(target)
    except converter.SpecError as error:
        raise BadRequest(f"--target {target} is not known: {error}.") from error


def read_signature(entry: ModelInfo, options: Options) -> Signature:
    """What the file is to take and to give."""
    layers = read_layers(options.layers, entry)
    if options.reshape and not layers:
        raise BadRequest("--reshape is about hidden states: say which with --layers.")
    size, batch = read_size(options.size, entry), read_batch(options.batch)
    if options.input == "uint8" and size is None:
        raise BadRequest(
            "--input uint8 resizes images inside the file, so that --size dynamic leaves open to "
            f"which size: write one such as {entry.preprocessing.size[0]}, or leave --size out."
        )
    return Signature(size, batch, layers, options.reshape, options.input)


def read_layers(text: str | None, entry: ModelInfo) -> tuple[int, ...]:
    """Block numbers, from 1 and in order, from `3,6,9,12` or `last4`."""
    if text is None:
        return ()
    count = entry.config.layers
    last = re.fullmatch(r"last([1-9]\d*)", text, re.ASCII)
    if last and int(last[1]) <= count:
        return tuple(range(count - int(last[1]) + 1, count + 1))
    if not last and not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise BadRequest(f"--layers {text} names no layers: write 3,6,9,12 or last4.")
    chosen = [] if last else [int(number) for number in text.split(",")]
    if last or not all(1 <= layer <= count for layer in chosen):
        raise BadRequest(f"--layers {text} does not fit {entry.name}: it has layers 1 to {count}.")
    if len(set(chosen)) < len(chosen):
        raise BadRequest(f"--layers {text} names a layer twice: name each once.")
    return tuple(sorted(chosen))


def read_size(text: str | None, entry: ModelInfo) -> tuple[int, int] | None:
    """(height, width) from `224` or `256x384`, the model's own from None, None from `dynamic`."""
    if text is None:
        return entry.preprocessing.size
    if text == "dynamic":
        return None
    stride = entry.config.stride
    sides = read_sides(text)
    if sides is None:
        raise BadRequest(
            f"--size {text} is no size: write one such as 224, or 256x384 (HxW), or `dynamic`."
        )
    if any(side == 0 or side % stride for side in sides):
        raise BadRequest(
            f"--size {text} does not fit {entry.name}: height and width must be positive "
            f"multiples of its patch size, {stride}."
        )
    return sides


def read_sides(text: str) -> tuple[int, int] | None:
    """(height, width) from `224` or `256x384`; None from anything else."""
    found = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text, re.ASCII)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def read_batch(text: str) -> int | None:
    """None from `dynamic`, else the number."""
    if text == "dynamic":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise BadRequest(f"--batch {text} is no batch size: write `dynamic` or a positive number.")
    return int(text)


def read_targets(name: str, opsets: tuple[int, ...], options: Options) -> tuple[Path, ...]:
    """The `.onnx` file to write for each opset."""
    out = options.out
    if out is not None and out.suffix == ".onnx":
        if len(opsets) > 1:
            raise BadRequest(
                f"--out {out} names one file for {len(opsets)} opsets: name a folder instead."
            )
        if not re.fullmatch(NAME, out.name) or len(out.name) > 150:
            raise BadRequest(
                f"--out {str(out)!r}: a manifest cannot hold that name. Write one of at most 150 "
                "letters (a to z), digits, `_`, `-` and `.`, the first a letter, a digit or `_`."
            )
        return (out,)
    folder = out or Path()
    usual = (Options.target, Options.precision)
    given = (re.sub(r"[^\w.]+", "-", options.target), options.precision)
    told = [part for part in given if part not in usual]
    return tuple(folder / f"{'-'.join((name, f'opset{n}', *told))}.onnx" for n in opsets)


def check_free(target: Path, force: bool) -> None:
    """Refuse to write over an earlier export unless told to."""
    for path in (target, manifest_path(target), sidecar_path(target)):
        if path.is_dir():
            raise BadOutput(f"{path} is a folder: name another place with --out.")
        if path.exists() and not force:
            raise BadOutput(f"{path} exists already: replace it with --force, or use --out.")
