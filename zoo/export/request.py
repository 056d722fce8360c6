"""Check the options of an export and plan its files, before any work starts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from converter.opsets import DEFAULT_TARGET, FIRST_FUSED_OPSET
from weights.parameters import parameter
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.choices import Input, Layout, Precision, Scales, Target
from zoo.checkpoints.source import WeightsChoice, resolve_weights
from zoo.common.errors import BadRequest
from zoo.common.options import FORCE, OFFLINE, SIZE, out_folder_option
from zoo.common.staging import NAME, check_output_path
from zoo.export import export_options as cli_options
from zoo.export.precisions import PRECISIONS
from zoo.images.picture_folder import PictureFolder, read_picture_folder

if TYPE_CHECKING:
    from converter.targets import Target as Runtime


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of an exported ONNX file, as far as the user chooses them.

    Arguments:
        size: (height, width) of the input images in pixels, or None if the file takes any size.
        batch: batch size, or None if the file takes any batch size.
        layers: numbers of the blocks whose hidden states are further outputs, counted from 1 and in
            ascending order.
        as_maps: whether these hidden states are maps `[batch, dim, height, width]`. Otherwise they
            are tokens `[batch, tokens, dim]`.
        input: `float32` for preprocessed pixels; `uint8` for images of any size, which the file
            itself resizes to `size` and normalizes.
        outputs: names of the fields of the model's output that become outputs of the file; empty
            for the fields that the model returns by default. Hidden states are not listed here.
    """

    size: tuple[int, int] | None
    batch: int | None
    layers: tuple[int, ...] = ()
    as_maps: bool = False
    input: Input = "float32"
    outputs: tuple[str, ...] = ()


Size = tuple[int, int] | Literal["dynamic"] | None
"""Image size of a request: (height, width), `dynamic` for a file that takes any size, or None for
the model's own size."""


ONE_FILE = "; where there is only one file, also its name, which ends in .onnx"
"""End of the help text of the option `out`."""


@dataclass(frozen=True)
class Options:
    """Options of `zoo export`, as the user gave them and before they are checked.

    The help texts of the command line are in the annotations (`zoo.export.export_options`).
    """

    weights: str | WeightsChoice = "auto"
    out: Annotated[Path | None, out_folder_option("the current folder", ONE_FILE)] = None
    force: Annotated[bool, FORCE] = False
    keep_inexact: Annotated[bool, cli_options.KEEP_INEXACT] = False
    offline: Annotated[bool, OFFLINE] = False
    opsets: Annotated[Sequence[int], cli_options.OPSET] = ()
    precision: Annotated[Precision, cli_options.PRECISION] = "fp32"
    calibrate: Annotated[Path | None, cli_options.CALIBRATE] = None
    scales: Annotated[Scales, cli_options.SCALES] = "tensor"
    target: Annotated[Target, cli_options.TARGET] = DEFAULT_TARGET
    layout: Annotated[Layout | None, cli_options.ATTENTION_LAYOUT] = None
    verify: Annotated[bool, cli_options.VERIFY] = True
    size: Annotated[Size, SIZE] = None
    batch: Annotated[int | None, cli_options.BATCH] = None
    outputs: Annotated[Sequence[str], cli_options.OUTPUTS] = ()
    layers: Annotated[Sequence[int] | str, cli_options.LAYERS] = ()
    reshape: Annotated[bool, cli_options.RESHAPE] = False
    input: Annotated[Input, cli_options.INPUT] = "float32"


@dataclass(frozen=True, kw_only=True)
class FileSpec(Signature):
    """One ONNX file of a plan: its signature, its path in the plan's folder, and its format.

    Arguments:
        path: path relative to the plan's folder, with `/` between its parts.
        opset: ONNX opset of the file.
        precision: number format of the weights and computations.
        variant: name of the file in the manifest, such as `fp16` or `fused`.
        tower: name of the tower that the file holds, such as `text`; empty for a file with the full
            network.
    """

    path: str
    opset: int
    precision: Precision = "fp32"
    variant: str
    tower: str = ""

    @property
    def name(self) -> str:
        """File name without folders."""
        return PurePosixPath(self.path).name

    def sibling_path(self, name: str) -> str:
        """Return the path of a file called `name` in the same folder as this file."""
        return PurePosixPath(self.path).with_name(name).as_posix()


@dataclass(frozen=True)
class Plan:
    """The files of one model to write to a folder. All options have been checked.

    A plan is plain data that can be sent to another process, unless `weights` is an open
    checkpoint.

    Arguments:
        model: registry entry of the model, adapted to the user's checkpoint.
        options: the options as the user gave them.
        weights: the weights to load: `"auto"`, a seed, a path, or an open checkpoint.
        folder: folder to write to.
        files: the files to write.
        pictures: pictures to calibrate int8 activations with, or None without calibration.
    """

    model: ModelInfo
    options: Options
    weights: WeightsChoice
    folder: Path
    files: tuple[FileSpec, ...]
    pictures: PictureFolder | None = None

    @property
    def signature(self) -> Signature:
        """Inputs and outputs of the files that hold the full network. All these files have the
        same."""
        return next(file for file in self.files if not file.tower)

    @property
    def targets(self) -> tuple[Path, ...]:
        """Paths at which the files are published, in the order of `files`."""
        return tuple(self.folder / file.path for file in self.files)


def plan_files(entry: ModelInfo, options: Options) -> Plan:
    """Check the options of `zoo export` for a model, and return the plan with one file for each
    opset.

    If the options name a user's checkpoint, the plan's entry describes the network in that
    checkpoint. Nothing is written.

    **Raises** a `ZooError` for the first option that is not valid, or if a file to write exists
    already and `force` is not set. **Raises** a `WeightsError` if the checkpoint cannot be used.
    """
    import converter
    from zoo.checkpoints.custom import find_model_in_checkpoint

    entry, weights = find_model_in_checkpoint(entry, resolve_weights(options.weights))
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
    folder, names = choose_paths(entry.name, read_opsets(options, runtime), options)
    for name in names.values():
        check_output_path(folder / name, options.force)
    signature = read_signature(entry, options)
    check_target(runtime, options.precision, signature, entry)
    check_activation_options(options, [options.precision])
    check_scale_operator(options, runtime, max(names))
    pictures = read_calibration(options)
    files = tuple(
        FileSpec(
            **vars(signature),
            path=name,
            opset=opset,
            precision=options.precision,
            variant="fused"
            if options.precision == "fp32" and opset >= FIRST_FUSED_OPSET
            else options.precision,
        )
        for opset, name in names.items()
    )
    return Plan(entry, options, weights, folder, files, pictures)


def with_integer_activations(precisions: Iterable[Precision]) -> list[Precision]:
    """Return those of the given precisions that quantize activations to integers, in the same
    order."""
    return [precision for precision in precisions if PRECISIONS[precision].scales_activations]


INTEGER_ACTIVATION_PRECISIONS = " or ".join(with_integer_activations(PRECISIONS))
"""The same precisions in words, for messages: the options `scales` and `calibrate` apply to
these."""


def check_activation_options(options: Options, precisions: Iterable[Precision]) -> None:
    """Check the options about integer activations, `scales` and `calibrate`.

    `precisions` are the precisions of the files to write. **Raises** `BadRequest` if `scales` is
    unknown, if row scales and calibration pictures are both requested, or if one of the two is
    requested and no precision has integer activations.
    """
    scales, calibrate = parameter("scales"), parameter("calibrate")
    if options.scales not in get_args(Scales):
        raise BadRequest(f"{scales} {options.scales} is not known: choose from tensor, row.")
    if options.scales == "row" and options.calibrate is not None:
        raise BadRequest(
            f"{scales} row and {calibrate} are two ways for {INTEGER_ACTIVATION_PRECISIONS}: leave "
            "one out."
        )
    option_given = f"{scales} row" if options.scales == "row" else ""
    if options.calibrate is not None:
        option_given = f"calibrate {options.calibrate}"
    if option_given and not with_integer_activations(precisions):
        raise BadRequest(
            f"{option_given} is about {INTEGER_ACTIVATION_PRECISIONS}, which is not what is asked "
            f"for: ask for {INTEGER_ACTIVATION_PRECISIONS}, or leave it out."
        )


def check_scale_operator(options: Options, runtime: "Runtime", opset: int) -> None:
    """Check that every version of the target can quantize activations as the options request, in a
    file of this opset.

    **Raises** `BadRequest` if some version of `runtime` lacks the operator (`QuantizeLinear`) at
    this opset.
    """
    if opset > (newest := newest_with_scales(options, runtime)):
        operator = PRECISIONS[options.precision].activation_operator
        raise BadRequest(
            f"{options.precision} with scales of its own is not for {options.target} at opset "
            f"{opset}, of which not all its versions have {operator}: ask for opset {newest}."
        )


def newest_with_scales(options: Options, runtime: "Runtime") -> int:
    """Return the newest opset at which the target runs a file of the requested precision.

    Row scales and calibrated ranges need the operator `QuantizeLinear`, which some versions of a
    runtime have for older opsets only. Without them the newest opset of the target is returned.
    """
    operator = PRECISIONS[options.precision].activation_operator
    is_fixed = options.scales == "row" or options.calibrate is not None
    return runtime.newest_opset(operator) if is_fixed and operator else runtime.opsets[-1]


def read_calibration(options: Options) -> PictureFolder | None:
    """Return the calibration pictures in the folder that the options name, or None if they name
    none.

    **Raises** `BadRequest` if the folder cannot be used.
    """
    return None if options.calibrate is None else read_picture_folder(options.calibrate)


def read_opsets(options: Options, runtime: "Runtime") -> tuple[int, ...]:
    """Return the requested opsets without duplicates, in the order of the request. If none is
    requested, return the target's default opset alone.

    **Raises** `BadRequest` for an opset that the target does not support.
    """
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
    """Check that the target can run a file of this precision and signature.

    **Raises** `BadRequest` if the target lacks the operator that the precision needs, or if it
    needs fixed input shapes and the signature leaves the image size, the batch or the size of uint8
    images open.
    """
    name, operator = runtime.name, PRECISIONS[precision].operator
    if not runtime.has_operator(operator, "float32", runtime.opset):
        raise BadRequest(f"precision {precision} needs {operator}, which target {name} lacks.")
    open_dimensions = {
        "size 224 instead of dynamic": signature.size is None and entry.config.pictures is not None,
        "batch 1, or another number": signature.batch is None,
        "input float32": signature.input == "uint8",
    }
    if missing := [
        text for text, is_open in open_dimensions.items() if runtime.static_sizes_only and is_open
    ]:
        raise BadRequest(f"target {name} takes fixed sizes alone: give {' and '.join(missing)}.")


def read_signature(entry: ModelInfo, options: Options) -> Signature:
    """Return the inputs and outputs that the options request for a model, with its defaults filled
    in.

    **Raises** `BadRequest` for the first option that is not valid for the model.
    """
    layers, size, batch = read_layers(options.layers, entry), options.size, options.batch
    check_input_options(entry, options)
    if options.reshape and not layers:
        raise BadRequest("reshape is about hidden states: say of which layers.")
    if batch is not None and not (is_integer(batch) and batch > 0):
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
    outputs = read_output_names(options.outputs, layers, entry)
    return Signature(sides, batch, layers, options.reshape, options.input, outputs)


def check_input_options(entry: ModelInfo, options: Options) -> None:
    """Check that the options `size`, `input` and `calibrate` fit the inputs of the model.

    **Raises** `BadRequest` for an image size of a model without images, for `uint8` input or
    calibration of a model of texts, and for `uint8` input of a model that takes other arrays than
    plain pixels.
    """
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


def is_integer(value: object) -> bool:
    """Return whether a value is an integer of Python or numpy. False for a Boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def read_layers(layers: Sequence[int] | str, entry: ModelInfo) -> tuple[int, ...]:
    """Return the numbers of the blocks whose hidden states are requested, counted from 1 and in
    ascending order.

    `layers` are block numbers, or a text such as `last4` for the last four blocks. An empty
    sequence gives an empty result. **Raises** `BadRequest` for a block that the model does not
    have, or one that is named twice.
    """
    count = entry.config.num_hidden_states
    if layers and not count:
        raise BadRequest(f"{entry.name} gives no hidden states: leave out the layers.")
    numbers = range(1, count + 1)
    if isinstance(layers, str):
        last = re.fullmatch(r"last([1-9]\d{0,5})", layers, re.ASCII)
        layers = numbers[-int(last[1]) :] if last and int(last[1]) <= count else (0,)
    if not all(is_integer(layer) and layer in numbers for layer in layers):
        raise BadRequest(
            f"{entry.name} has layers 1 to {count}: give some of these, or the last, as in last4."
        )
    if len(set(layers)) < len(layers):
        raise BadRequest(f"layers {','.join(map(str, layers))} name one twice: name each once.")
    return tuple(sorted(layers))


def read_output_names(
    outputs: Sequence[str], layers: Sequence[int], entry: ModelInfo
) -> tuple[str, ...]:
    """Return the requested output names without duplicates, in the order in which a file has them.

    The names are those of fields of the network's result, such as `pooler_output`. If `outputs` is
    empty, return an empty tuple, which stands for the model's default outputs. The file has the
    hidden states of `layers` in any case; they need no name in `outputs`.

    **Arguments:**

    - `outputs`: the requested names.
    - `layers`: the blocks whose hidden states are requested. Without any, `hidden_states` is an
      unknown name.
    - `entry`: the model.

    **Raises** `BadRequest` for an output that the model does not have.
    """
    if not outputs:
        return ()
    from zoo.architectures.builder import output_choices

    choices = output_choices(entry.config, layers)
    if unknown := [name for name in outputs if name not in choices]:
        raise BadRequest(
            f"{entry.name} has no output {unknown[0]!r}: choose from {', '.join(choices)}."
        )
    return tuple(name for name in choices if name in outputs)


def check_size(size: tuple[int, int], entry: ModelInfo) -> tuple[int, int]:
    """Return `size` (height, width) unchanged, after checking that the model takes images of this
    size.

    **Raises** `BadRequest` if a side is not a positive multiple of the model's patch size.
    """
    stride = entry.config.stride
    sides_fit = (is_integer(side) and side > 0 and side % stride == 0 for side in size)
    if len(size) != 2 or not all(sides_fit):
        raise BadRequest(
            f"size {'x'.join(map(str, size))} does not fit {entry.name}: height and width must be "
            f"positive multiples of its patch size, {stride}."
        )
    return size


def choose_paths(
    name: str, opsets: tuple[int, ...], options: Options
) -> tuple[Path, dict[int, str]]:
    """Return the folder to write to, and the file name for each opset.

    `options.out` may be a folder or, for a single opset, a file name that ends in `.onnx`. In a
    folder a file is called after the model `name`, its opset, and the target and precision if these
    are not the defaults: `dinov2_vits14-opset18-fp16.onnx`. **Raises** `BadRequest` for a file name
    that a manifest cannot hold, or one file name for several opsets.
    """
    out = options.out
    if out is not None and out.suffix == ".onnx":
        if len(opsets) > 1:
            raise BadRequest(
                f"{parameter('out')} {out} names one file for {len(opsets)} opsets: name a "
                "folder instead."
            )
        if not re.fullmatch(NAME, out.name) or len(out.name) > 150:
            raise BadRequest(
                f"{str(out)!r}: a manifest cannot hold that name. Write one of at most 150 "
                "letters (a to z), digits, `_`, `-` and `.`, the first a letter, a digit or `_`."
            )
        return out.parent, {opsets[0]: out.name}
    defaults = (Options.target, Options.precision)
    values = (re.sub(r"[^\w.]+", "-", options.target), options.precision)
    suffixes = [part for part in values if part not in defaults]
    names = {opset: "-".join((name, f"opset{opset}", *suffixes)) for opset in opsets}
    return out or Path(), {opset: f"{stem}.onnx" for opset, stem in names.items()}
