"""The vocabulary of the command line: options that several commands have, and their values."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from converter.opsets import OLDEST_RUNTIME, OPSETS, TARGET_NAMES
from zoo.errors import BadRequest
from zoo.manifest import choices
from zoo.registry.lookup import MODELS

NETWORK, FILE, MANY = "The network's input and output", "The ONNX file", "Many models"
OWN = "A checkpoint of your own"
SEVERAL = "May be repeated, or take several with commas between them."
REPLACE = "Replace files that are there already."


def complete(incomplete: str) -> list[str]:
    """The models whose names a shell may complete to."""
    return [name for name in MODELS if name.startswith(incomplete)]


def split_commas(values: list[str] | None) -> list[str]:
    """`a,b` and `c` as `a`, `b` and `c`."""
    return [part.strip() for value in values or () for part in value.split(",")]


def parse_opsets(texts: Sequence[str] | None) -> list[int]:
    """**Raises** `BadRequest` where a text is no number."""
    for text in texts or ():
        if not text.isdecimal():
            raise BadRequest(f"--opset {text} is no opset: write numbers such as 18,23.")
    return [int(text) for text in texts or ()]


def read_size(text: str | None) -> tuple[int, int] | Literal["dynamic"] | None:
    """(height, width) from `224` or `256x384`, or `dynamic`. **Raises** `BadRequest`."""
    return "dynamic" if text == "dynamic" else read_sides(text, ", or `dynamic`")


def read_sides(text: str | None, more: str = "") -> tuple[int, int] | None:
    """(height, width) from `224` or `256x384`. **Raises** `BadRequest`."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text, re.ASCII)
    sides = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if 0 in sides:
        raise BadRequest(f"--size {text} is no size: write one such as 224 or 256x384 (HxW){more}.")
    return sides


def read_batch(text: str) -> int | None:
    """A positive number, or None from `dynamic`. **Raises** `BadRequest`."""
    if text == "dynamic":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise BadRequest(f"--batch {text} is no batch size: write `dynamic` or a positive number.")
    return int(text)


def read_layers(text: str | None) -> tuple[int, ...] | str:
    """Numbers from `3,6,9,12`; `last4` as it is. **Raises** `BadRequest`."""
    if text is None:
        return ()
    if re.fullmatch(r"last\d+", text, re.ASCII):
        return text
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise BadRequest(f"--layers {text} names no layers: write 3,6,9,12 or last4.")
    return tuple(map(int, text.split(",")))


class SpreadOpsets(TyperCommand):
    """A command where `--opset 18 23` means `--opset 18,23`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, join_opsets(args))


def join_opsets(arguments: Sequence[str]) -> list[str]:
    """Numbers that follow an opset belong to it."""
    joined: list[str] = []
    for argument in arguments:
        behind = joined[-2:-1] == ["--opset"] or (joined and joined[-1].startswith("--opset="))
        if behind and argument.isdecimal():
            joined[-1] += f",{argument}"
        else:
            joined.append(argument)
    return joined


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n".join(["Example:" if len(lines) == 1 else "Examples:", *lines])


def value(metavar: str | None, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a value; `show_default` is a default that depends on something."""
    return typer.Option(metavar=metavar, help=help, rich_help_panel=panel, **more)


def flag(name: str, help: str, panel: str | None = None) -> Any:
    """An option without a value."""
    # Typer would write <bool> behind it.
    return typer.Option(name, metavar="", help=help, rich_help_panel=panel)


def models(help: str, metavar: str = "MODEL") -> Any:
    """Names of models, to which shells complete."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete)


def size_option(default: str, panel: str | None = NETWORK) -> Any:
    """`--size`."""
    help = "Height and width in pixels, such as 224 or 256x384"
    help += "; `dynamic` leaves them open." if panel else ", where a file leaves them open."
    return value("N|HxW", help, panel, show_default=default)


def variants(default: str) -> Any:
    """`--variant`."""
    help = f"The variants fp32, fused, fp16, bf16, int8, q4 or q4f16, or `all` of them. {SEVERAL}"
    return value("NAME", help, callback=split_commas, show_default=default)


def out(default: str | bool, more: str = "") -> Any:
    """`--out`."""
    return value("FOLDER", f"The folder to write to{more}.", show_default=default)


def scheduler(panel: str) -> Any:
    """`--scheduler`."""
    return value("ADDRESS", "Do the work on the workers of a Dask cluster.", panel)


FILE_OUT = value("FILE", "The file to write.")


def weights(default: str | bool) -> Any:
    """`--weights`."""
    return value(
        "auto|random|PATH",
        "Where the weights come from. `auto` looks in the usual places and downloads what is not "
        "there; `random` or `random:SEED` draws them; anything else is the path of a checkpoint.",
        show_default=default,
    )


Model = Annotated[str, models("The name or an alias of a model; `zoo list` shows them.")]
All = Annotated[bool, flag("--all", "Take every model of the zoo.", MANY)]
Filter = Annotated[
    list[str] | None,
    value(
        "PATTERN",
        f"Take the models whose names fit, such as `vit5_*`. {SEVERAL}",
        MANY,
        callback=split_commas,
    ),
]
Weights = Annotated[str, weights(True)]
Force = Annotated[bool, flag("--force", REPLACE)]
INEXACT = (
    "Also write files of low precision whose numbers are too far from fp32's; the manifest says "
    "that they did not pass."
)
KeepInexact = Annotated[bool, flag("--keep-inexact", INEXACT, FILE)]
Offline = Annotated[bool, flag("--offline", "Never ask the hub; use what is on this machine.")]
DryRun = Annotated[bool, flag("--dry-run", "Only say what would be done.")]
TAKE = (
    "Of several networks in a checkpoint, the one to take: a word before its tensors' names, such "
)
TAKE += "as teacher, ema or model. By default the averaged one."
Take = Annotated[str, value("NAME", TAKE, OWN, show_default=False)]
OwnName = Annotated[
    str,
    value(
        "NAME",
        "What a checkpoint of your own is called, in file names, manifest and card.",
        OWN,
        show_default="the name of its file or folder",
    ),
]
Licence = Annotated[
    str,
    value(
        "NAME",
        "The licence of a checkpoint of your own: apache-2.0, mit, cc-by-4.0, cc-by-nc-4.0, or any "
        "other in words.",
        OWN,
        show_default="not stated",
    ),
]
WithoutHead = Annotated[
    bool,
    flag("--without-head", "Leave out the head on a checkpoint's network: features alone.", OWN),
]
Base = Annotated[
    Path | None,
    value("PATH", "The checkpoint on which the adapter (LoRA) at --weights was trained.", OWN),
]
Plot = Annotated[
    Path | None, value("FILE", "Also draw what was found, as a .png, .jpg or .webp file.")
]
Json = Annotated[
    bool, flag("--json", "Print the result as one JSON document, with nothing else on stdout.")
]
Revision = Annotated[
    str | None,
    value(
        "NAME",
        "The branch on the hub. `zoo pull` takes a tag or a commit too.",
        show_default="main",
    ),
]
Opsets = Annotated[
    list[str] | None,
    value(
        "N",
        f"The version of ONNX's operators, from {OPSETS[0]} to {OPSETS[-1]}. Several, as in 18,23, "
        "give a file each.",
        FILE,
        callback=split_commas,
        show_default="what suits the target",
    ),
]
Precision = Annotated[
    choices.Precision,
    value(
        "NAME",
        "The precision of weights and computations: fp32, fp16, bf16, int8, q4 or q4f16.",
        FILE,
    ),
]
Calibrate = Annotated[
    Path | None,
    value(
        "FOLDER",
        "For int8: a folder with pictures, on which the ranges of activations are measured. The "
        "file gets these or computes its own, whichever is faster and near enough to fp32.",
        FILE,
    ),
]
Target = Annotated[
    choices.Target,
    value(
        "NAME",
        f"The runtime that the file is for: {', '.join(TARGET_NAMES)}. Portable is for all of them "
        "and others that want fixed sizes, standard for any that has all operators of the opset. "
        "With versions, as in 'onnxruntime>=1.32', it is for "
        "these alone, and does without what only older ones need.",
        FILE,
    ),
]
OldestRuntime = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="VERSION",
        help="The oldest version of ONNX Runtime that is to run the files, such as 1.20; variants "
        "that it cannot run are left out.",
        rich_help_panel=FILE,
        show_default=OLDEST_RUNTIME,
    ),
]
AttentionLayout = Annotated[
    choices.Layout | None,
    value(
        "4d|3d",
        "How many axes the inputs of `Attention` have. 4d has one for the heads; 3d has the heads "
        "side by side, which ONNX Runtime often runs a little faster.",
        FILE,
        show_default="what suits the target",
    ),
]
NoVerify = Annotated[bool, flag("--no-verify", "Do not compare the file with JAX.", FILE)]
Batch = Annotated[
    str, value("N|dynamic", "The number of images in a batch; `dynamic` leaves it open.", NETWORK)
]
Layers = Annotated[
    str | None,
    value("I,J|lastN", "The layers whose hidden states are outputs too: 3,6 or last4.", NETWORK),
]
Outputs = Annotated[
    list[str] | None,
    value(
        "NAME",
        "An output that a file is to have, such as pooler_output, attentions or class_attention; "
        f"a wrong name is answered with all of them. {SEVERAL}",
        NETWORK,
        callback=split_commas,
        show_default="what the network gives unasked",
    ),
]
Reshape = Annotated[bool, flag("--reshape", "Give hidden states as maps [B, D, h, w].", NETWORK)]
Images = Annotated[
    choices.Input,
    value(
        None,
        "float32 takes preprocessed pixels; uint8 takes RGB images of any size, which the file "
        "preprocesses itself.",
        NETWORK,
    ),
]
