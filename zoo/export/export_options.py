"""Options of `zoo export`, which are also parameters of `zoo.to_onnx`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from converter.opsets import OPSETS, TARGET_NAMES
from weights.parameters import parameter
from zoo.artifacts.choices import Precision
from zoo.common.errors import BadRequest
from zoo.common.options import FILE_PANEL, NETWORK_PANEL, SEVERAL, Option, flag


def parse_opsets(texts: Sequence[str]) -> list[int]:
    """Return the opset numbers that the command line gives as texts.

    **Raises** `BadRequest` for a text that is not a number.
    """
    for text in texts:
        if not text.isdecimal():
            raise BadRequest(
                f"{parameter('opset')} {text} is not an opset: write numbers such as 18,23."
            )
    return [int(text) for text in texts]


def parse_batch(text: str) -> int | None:
    """Return the batch size that a text of the command line means: a positive number, or None for
    `dynamic`, an open batch.

    **Raises** `BadRequest` for any other text.
    """
    if text == "dynamic":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise BadRequest(
            f"{parameter('batch')} {text} is no batch size: write `dynamic` or a positive number."
        )
    return int(text)


def parse_layers(text: str) -> tuple[int, ...] | str:
    """Return the block numbers in a text of the command line: `3,6,9` gives `(3, 6, 9)`.

    A text such as `last4` is returned unchanged, because its meaning depends on the model.
    **Raises** `BadRequest` for any other text.
    """
    if re.fullmatch(r"last\d+", text, re.ASCII):
        return text
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise BadRequest(f"{parameter('layers')} {text} names no layers: write 3,6,9,12 or last4.")
    return tuple(map(int, text.split(",")))


OPSET = Option(
    "N",
    f"The version of ONNX's operators, from {OPSETS[0]} to {OPSETS[-1]}. Several, as in 18,23, "
    "give a file each.",
    FILE_PANEL,
    name="--opset",
    default="what suits the target",
    command_line_type=list[str],
    convert=parse_opsets,
    several=True,
    in_python=f"The version of ONNX's operators, from {OPSETS[0]} to {OPSETS[-1]}, by default what "
    "suits the target.",
)

*_PRECISIONS, _LAST = get_args(Precision)

PRECISION = Option(
    "NAME",
    f"The precision of weights and computations: {', '.join(_PRECISIONS)} or {_LAST}.",
    FILE_PANEL,
)
CALIBRATE = Option(
    "FOLDER",
    "For int8: a folder with pictures, on which the ranges of activations are measured. The file "
    "gets these or computes its own, whichever is faster and near enough to fp32.",
    FILE_PANEL,
    command_line_type=Path,
)
SCALES = Option(
    None,
    "For int8: one scale for each tensor of activations, which depends on all images of a batch, "
    "or one for each row, which does not and takes a sixth longer.",
    FILE_PANEL,
)
TARGET = Option(
    "NAME",
    f"The runtime that the file is for: {', '.join(TARGET_NAMES)}. Portable is for all of them and "
    "others that want fixed sizes, standard for any that has all operators of the opset. With "
    "versions, as in 'onnxruntime>=1.32', it is for these alone, and does without what only older "
    "ones need.",
    FILE_PANEL,
)
ATTENTION_LAYOUT = Option(
    "4d|3d",
    "How many axes the inputs of `Attention` have. 4d has one for the heads; 3d has the heads side "
    "by side, which ONNX Runtime often runs a little faster.",
    FILE_PANEL,
    name="--attention-layout",
    default="what suits the target",
)
VERIFY = flag(
    "Do not compare the file with JAX.",
    FILE_PANEL,
    name="--no-verify",
    negates=True,
    in_python="Compare the file with JAX on photographs.",
)
KEEP_INEXACT = flag(
    "Also write files of low precision whose numbers are too far from fp32's; the manifest says "
    "that they did not pass.",
    FILE_PANEL,
)
BATCH = Option(
    "N|dynamic",
    "The number of images in a batch; `dynamic` leaves it open.",
    NETWORK_PANEL,
    default="dynamic",
    command_line_type=str,
    convert=parse_batch,
    in_python="The number of images in a batch, which is left open by default.",
)
LAYERS = Option(
    "I,J|lastN",
    "The layers whose hidden states are outputs too: 3,6 or last4.",
    NETWORK_PANEL,
    command_line_type=str,
    convert=parse_layers,
    in_python="The layers, from 1, whose hidden states are outputs too: `(3, 6)` or `'last4'`; "
    "only of a network of the zoo itself.",
)
OUTPUTS = Option(
    "NAME",
    "An output that a file is to have, such as pooler_output, attentions or class_attention; a "
    f"wrong name is answered with all of them. {SEVERAL}",
    NETWORK_PANEL,
    name="--output",
    default="what the network gives unasked",
    command_line_type=list[str],
    several=True,
    in_python="The outputs that the file is to have, such as `['attentions']`; by default what the "
    "network gives unasked. Only of a network of the zoo itself.",
)
RESHAPE = flag("Give hidden states as maps [B, D, h, w].", NETWORK_PANEL)
INPUT = Option(
    None,
    "float32 takes preprocessed pixels; uint8 takes RGB images of any size, which the file "
    "preprocesses itself.",
    NETWORK_PANEL,
)
