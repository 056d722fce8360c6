"""Golden files: inputs of a network and the outputs of a reference implementation, as safetensors.

Images are stored as `pixel_values [n, 3, H, W]` in float32 or as `image [n, H, W, 3]` in uint8.
Texts are stored as `input_ids [n, tokens]` and, for some networks, `attention_mask [n, tokens]`,
both in int64. Outputs are stored under their names. The header names the model, the digest of its
weights and the reference. It also lists the inputs if they have other names than these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weights.containers.safetensors import read_arrays
from weights.errors import WeightsError
from weights.writers.safetensors_writer import write_arrays
from zoo.common.errors import BadFile

INPUT_RANKS = {"pixel_values": 4, "image": 4, "input_ids": 2, "attention_mask": 2}
"""The usual inputs and their numbers of axes."""

INPUTS = "inputs"
"""The key of the header that lists other inputs, separated by commas."""

HEADER_FIELDS = ("model", "reference", "weights_sha256")  # names of the fields in the header


@dataclass(frozen=True)
class Golden:
    """The content of a golden file.

    - `model`: the name of the model.
    - `reference`: the implementation that computed the outputs.
    - `weights_sha256`: the digest of the weights.
    - `feeds`: the arrays that the network was run on, by input name.
    - `outputs`: the outputs of the reference implementation, by output name.
    """

    model: str
    reference: str
    weights_sha256: str
    feeds: Mapping[str, NDArray[np.generic]]
    outputs: Mapping[str, NDArray[np.generic]]


def write_golden(path: Path, golden: Golden) -> None:
    """Write a golden file in the safetensors format.

    The header lists the inputs if one of them has another name or number of axes than in
    `INPUT_RANKS`.
    """
    header = {name: getattr(golden, name) for name in HEADER_FIELDS}
    if any(INPUT_RANKS.get(name) != array.ndim for name, array in golden.feeds.items()):
        header[INPUTS] = ",".join(golden.feeds)
    write_arrays(path, {**golden.feeds, **golden.outputs}, header)


def read_golden(path: Path) -> Golden:
    """Read a golden file.

    If the header lists the inputs, all other arrays are outputs. Otherwise the inputs are the
    arrays with names in `INPUT_RANKS`. `model`, `reference` and `weights_sha256` are empty if the
    header lacks them.

    **Raises** `BadFile` if the file is missing or damaged, or has no inputs or no outputs. It is
    also raised if an input is a scalar, or, without a list in the header, if an input has another
    number of axes than in `INPUT_RANKS`.
    """
    if not path.is_file():
        raise BadFile(f"{path} is missing: name a golden file, or pull or build its folder again.")
    try:
        arrays, header = read_arrays(path)
    except (WeightsError, OSError) as error:
        raise BadFile(str(error)) from error
    listed_names = str(header.get(INPUTS, ""))
    input_names = listed_names.split(",") if listed_names else [*INPUT_RANKS]
    feeds = {name: arrays.pop(name) for name in input_names if name in arrays}
    unexpected_inputs = [
        name for name, value in feeds.items() if value.ndim != INPUT_RANKS.get(name)
    ]
    if (
        not feeds
        or not arrays
        or (unexpected_inputs and not listed_names)
        or not all(map(np.ndim, feeds.values()))
    ):
        names = ascii([*feeds, *arrays])[:200]
        raise BadFile(f"{path} holds no images or texts and outputs, but {names}.")
    model, reference, digest = (str(header.get(name, "")) for name in HEADER_FIELDS)
    return Golden(model, reference, digest, feeds, arrays)
