"""What the user asks for, checked before any work starts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from converter.opsets import DEFAULT_TARGET
from weights.parameters import parameter
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.choices import Input, Layout, Precision, Scales, Target
from zoo.checkpoints.source import Choice, chosen_weights
from zoo.common.errors import BadOutput, BadRequest
from zoo.common.options import FORCE, OFFLINE, SIZE, out_folder
from zoo.common.staging import NAME, check_free, manifest_path, sidecar_path
from zoo.export import export_options as given
from zoo.export.precisions import PRECISIONS
from zoo.images.picture_folder import PictureFolder, read_picture_folder

if TYPE_CHECKING:
    from converter.targets import Target as Runtime


@dataclass(frozen=True)
class Signature:
    """Signature of an exported file: what it takes and gives.

    `size` is (height, width), `batch` the batch size; None where the file leaves it open.
    `layers` are the blocks whose hidden states are outputs as well, from 1 and in order,
    `as_maps` says that those are maps `[batch, dim, height, width]`. `outputs` are the fields of
    the model's output that the file has beside those; empty for what the model gives unasked. With
    `input` uint8 the file resizes images to `size` itself.
    """

    size: tuple[int, int] | None
    batch: int | None
    layers: tuple[int, ...] = ()
    as_maps: bool = False
    input: Input = "float32"
    outputs: tuple[str, ...] = ()


Size = tuple[int, int] | Literal["dynamic"] | None
"""(height, width), or neither, or the model's own."""


ONE_FILE = "; where there is only one file, also its name, which ends in .onnx"


@dataclass(frozen=True)
class Options:
    """Options of a file, as `zoo export` is asked for it."""

    weights: str | Choice = "auto"
    out: Annotated[Path | None, out_folder("the current folder", ONE_FILE)] = None
    force: Annotated[bool, FORCE] = False
    keep_inexact: Annotated[bool, given.KEEP_INEXACT] = False
    offline: Annotated[bool, OFFLINE] = False
    opsets: Annotated[Sequence[int], given.OPSET] = ()
    precision: Annotated[Precision, given.PRECISION] = "fp32"
    calibrate: Annotated[Path | None, given.CALIBRATE] = None
    scales: Annotated[Scales, given.SCALES] = "tensor"
    target: Annotated[Target, given.TARGET] = DEFAULT_TARGET
    layout: Annotated[Layout | None, given.ATTENTION_LAYOUT] = None
    verify: Annotated[bool, given.VERIFY] = True
    size: Annotated[Size, SIZE] = None
    batch: Annotated[int | None, given.BATCH] = None
    outputs: Annotated[Sequence[str], given.OUTPUTS] = ()
    layers: Annotated[Sequence[int] | str, given.LAYERS] = ()
    reshape: Annotated[bool, given.RESHAPE] = False
    input: Annotated[Input, given.INPUT] = "float32"


@dataclass(frozen=True)
class FileSpec:
    """One ONNX file: where it lies in its folder, and what it is."""

    path: str
    opset: int
    precision: Precision = "fp32"

    @property
    def name(self) -> str:
        """Name there."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class Request:
    """A checked request: which files are made, in which folder. The rest is as in the options."""

    model: ModelInfo
    options: Options
    weights: Choice
    signature: Signature
    folder: Path
    files: tuple[FileSpec, ...]
    pictures: PictureFolder | None = None

    @property
    def targets(self) -> tuple[Path, ...]:
        """The files in their places."""
        return tuple(self.folder / file.path for file in self.files)


def read_request(entry: ModelInfo, options: Options) -> Request:
    """Check all options. **Raises** a `ZooError` for the first that makes no sense."""
    import converter
    from zoo.checkpoints.custom import own_entry

    entry, weights = own_entry(entry, chosen_weights(options.weights))
    for option, value, choices in (
        ("precision", options.precision, get_args(Precision)),
        ("input", options.input, get_args(Input)),
    ):
        if value not in choices:
            raise BadRequest(f"{option} {value} is not known: choose from {', '.join(choices)}.")
    try:
        runtime = converter.find_target(options.target)
    except converter.SpecError as error:
        raise BadRequest(f"target {options.target} is not known: {error}.") from error
    folder, files = read_files(entry.name, read_opsets(options, runtime), options)
    for file in files:
        check_targets(folder / file.path, options.force)
    signature = read_signature(entry, options)
    check_target(runtime, options.precision, signature, entry)
    has_int8 = options.precision == "int8"
    check_scales(options, has_int8)
    check_quantized(options, runtime, [file.opset for file in files])
    pictures = read_calibration(options.calibrate, has_int8)
    return Request(entry, options, weights, signature, folder, files, pictures)


def check_scales(options: Options, has_int8: bool) -> None:
    """**Raises** `BadRequest` where scales by row are for nothing, or beside measured ranges."""
    scales, calibrate = parameter("scales"), parameter("calibrate")
    if options.scales not in get_args(Scales):
        raise BadRequest(f"{scales} {options.scales} is not known: choose from tensor, row.")
    if options.scales == "row" and options.calibrate is not None:
        raise BadRequest(f"{scales} row and {calibrate} are two ways for int8: leave one out.")
    if options.scales == "row" and not has_int8:
        raise BadRequest(
            f"{scales} row is about int8, which is not what is asked for: ask for int8, or leave "
            "it out."
        )


def check_quantized(options: Options, runtime: "Runtime", opsets: Sequence[int]) -> None:
    """**Raises** `BadRequest` where a version that is asked for has no `QuantizeLinear`."""
    fixed = options.scales == "row" or options.calibrate is not None
    if fixed and max(opsets) > newest_quantized(runtime):
        raise BadRequest(
            f"int8 with scales of its own is not for {options.target} at opset 23, whose "
            "QuantizeLinear came with 1.24: ask for opset 22."
        )


def newest_quantized(runtime: "Runtime") -> int:
    """Newest opset of whose `QuantizeLinear` the versions that are named have a kernel."""
    return max(o for o in runtime.opsets if runtime.takes("QuantizeLinear", "float32", o))


def read_calibration(folder: Path | None, has_int8: bool) -> PictureFolder | None:
    """The pictures that activations are to be ranged on. **Raises** `BadRequest`."""
    if folder is None:
        return None
    if not has_int8:
        raise BadRequest(
            f"calibrate {folder} is about int8, which is not what is asked for: ask for int8, or "
            "leave it out."
        )
    return read_picture_folder(folder)


def read_opsets(options: Options, runtime: "Runtime") -> tuple[int, ...]:
    """Opsets that are asked for, each once, or the target's own."""
    opsets = tuple(dict.fromkeys(options.opsets)) or (runtime.opset,)
    span = " to ".join(map(str, sorted({runtime.opsets[0], runtime.opsets[-1]})))
    for opset in opsets:
        if opset not in runtime.opsets:
            raise BadRequest(
                f"opset {opset} is not supported by target {runtime.name}: choose {span}."
            )
    return opsets


def check_target(
    runtime: "Runtime", precision: Precision, signature: Signature, entry: ModelInfo
) -> None:
    """Refuse what the target's runtime cannot run."""
    name, operator = runtime.name, PRECISIONS[precision].operator
    if not runtime.takes(operator, "float32", runtime.opset):
        raise BadRequest(f"precision {precision} needs {operator}, which target {name} lacks.")
    instead = {
        "size 224 instead of dynamic": signature.size is None and entry.config.pictures is not None,
        "batch 1, or another number": signature.batch is None,
        "input float32": signature.input == "uint8",
    }
    if missing := [text for text, is_open in instead.items() if runtime.fixed and is_open]:
        raise BadRequest(f"target {name} takes fixed sizes alone: give {' and '.join(missing)}.")


def read_signature(entry: ModelInfo, options: Options) -> Signature:
    """Signature that the file is to have."""
    layers, size, batch = chosen_layers(options.layers, entry), options.size, options.batch
    check_takes(entry, options)
    if options.reshape and not layers:
        raise BadRequest("reshape is about hidden states: say of which layers.")
    if batch is not None and not (is_whole(batch) and batch > 0):
        raise BadRequest(f"batch {batch} is no batch size: give a positive number.")
    if size == "dynamic" and options.input == "uint8":
        raise BadRequest(
            "input uint8 resizes images inside the file, so that size dynamic leaves open to "
            f"which size: give one such as {entry.preprocessing.size[0]}, or none."
        )
    if entry.preprocessing.padded and options.input == "uint8":
        raise BadRequest(
            f"input uint8 resizes images inside the file, and those of {entry.name} are padded, "
            "which no file does: leave it out, and take `zoo.preprocess`."
        )
    sides = None
    if size != "dynamic" and entry.config.pictures is not None:
        sides = check_size(size or entry.preprocessing.size, entry)
    outputs = chosen_outputs(options.outputs, layers, entry)
    return Signature(sides, batch, layers, options.reshape, options.input, outputs)


def check_takes(entry: ModelInfo, options: Options) -> None:
    """**Raises** `BadRequest` where an option is about images, and a model takes texts."""
    pictures, texts = entry.config.pictures, entry.config.texts
    if pictures is None and options.size not in (None, "dynamic"):
        raise BadRequest(f"{entry.name} takes texts, which have no size: leave it out.")
    if texts is not None and options.input == "uint8":
        raise BadRequest(f"{entry.name} takes texts: input uint8 is for models of images alone.")
    if texts is not None and options.calibrate is not None:
        raise BadRequest(f"{entry.name} takes texts: calibrate is for models of images alone.")
    if pictures is not None and not pictures.is_plain and options.input == "uint8":
        raise BadRequest(
            f"{entry.name} takes {' and '.join(pictures.names)}, which no file makes of images "
            "itself: leave out input uint8."
        )


def is_whole(value: object) -> bool:
    """Whether it is a whole number, of Python or of numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def chosen_layers(layers: Sequence[int] | str, entry: ModelInfo) -> tuple[int, ...]:
    """Block numbers, from 1 and in order."""
    count = entry.config.num_hidden_states
    if layers and not count:
        raise BadRequest(f"{entry.name} gives no hidden states: leave out the layers.")
    numbers = range(1, count + 1)
    if isinstance(layers, str):
        last = re.fullmatch(r"last([1-9]\d{0,5})", layers, re.ASCII)
        layers = numbers[-int(last[1]) :] if last and int(last[1]) <= count else (0,)
    if not all(is_whole(layer) and layer in numbers for layer in layers):
        raise BadRequest(
            f"{entry.name} has layers 1 to {count}: give some of these, or the last, as in last4."
        )
    if len(set(layers)) < len(layers):
        raise BadRequest(f"layers {','.join(map(str, layers))} name one twice: name each once.")
    return tuple(sorted(layers))


def chosen_outputs(
    outputs: Sequence[str], layers: Sequence[int], entry: ModelInfo
) -> tuple[str, ...]:
    """Names of outputs, each once and in the order of a file."""
    if not outputs:
        return ()
    from zoo.architectures.builder import output_choices

    choices = output_choices(entry.config, layers)
    if strange := [name for name in outputs if name not in choices]:
        raise BadRequest(
            f"{entry.name} has no output {strange[0]!r}: choose from {', '.join(choices)}."
        )
    return tuple(name for name in choices if name in outputs)


def check_size(size: tuple[int, int], entry: ModelInfo) -> tuple[int, int]:
    """(height, width), if a model takes images of that size."""
    stride = entry.config.stride
    fit = (is_whole(side) and side > 0 and side % stride == 0 for side in size)
    if len(size) != 2 or not all(fit):
        raise BadRequest(
            f"size {'x'.join(map(str, size))} does not fit {entry.name}: height and width must be "
            f"positive multiples of its patch size, {stride}."
        )
    return size


def read_files(
    name: str, opsets: tuple[int, ...], options: Options
) -> tuple[Path, tuple[FileSpec, ...]]:
    """Into which folder to write which file for each opset."""
    place, spec = options.out, partial(FileSpec, precision=options.precision)
    if place is not None and place.suffix == ".onnx":
        if len(opsets) > 1:
            raise BadRequest(
                f"{parameter('out')} {place} names one file for {len(opsets)} opsets: name a "
                "folder instead."
            )
        if not re.fullmatch(NAME, place.name) or len(place.name) > 150:
            raise BadRequest(
                f"{str(place)!r}: a manifest cannot hold that name. Write one of at most 150 "
                "letters (a to z), digits, `_`, `-` and `.`, the first a letter, a digit or `_`."
            )
        return place.parent, (spec(place.name, opsets[0]),)
    usual = (Options.target, Options.precision)
    unusual = (re.sub(r"[^\w.]+", "-", options.target), options.precision)
    suffixes = [part for part in unusual if part not in usual]
    return place or Path(), tuple(
        spec(f"{'-'.join((name, f'opset{opset}', *suffixes))}.onnx", opset) for opset in opsets
    )


def check_targets(target: Path, force: bool) -> None:
    """Refuse to write over an earlier export unless told to. **Raises** `BadOutput`."""
    for path in (target, manifest_path(target), sidecar_path(target)):
        if path.is_dir():
            raise BadOutput(f"{path} is a folder: name another place with {parameter('out')}.")
        check_free(path, force)
