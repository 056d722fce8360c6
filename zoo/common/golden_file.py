"""Golden files: one input of a network, and what a reference makes of it, as safetensors.

The tensors are `pixel_values [n, 3, H, W]` in float32 or `image [n, H, W, 3]` in uint8 of images,
`input_ids [n, tokens]` and, for some networks, `attention_mask [n, tokens]` in int64 of texts, and
the outputs by name. The header says of which model and weights they are, and who computed them. It
names the inputs if they are others than these.
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
"""Inputs of most networks, and how many axes they have."""

INPUTS = "inputs"
"""The names of other inputs in the header, with commas between them."""

TOLD = ("model", "reference", "weights_sha256")  # what the header says


@dataclass(frozen=True)
class Golden:
    """A golden file's content: `fed` are the inputs by name."""

    model: str
    reference: str
    weights_sha256: str
    fed: Mapping[str, NDArray[np.generic]]
    outputs: Mapping[str, NDArray[np.generic]]


def write_golden(path: Path, golden: Golden) -> None:
    """Write a golden file."""
    facts = {name: getattr(golden, name) for name in TOLD}
    if any(INPUT_RANKS.get(name) != array.ndim for name, array in golden.fed.items()):
        facts[INPUTS] = ",".join(golden.fed)
    write_arrays(path, {**golden.fed, **golden.outputs}, facts)


def read_golden(path: Path) -> Golden:
    """Contents of a golden file. **Raises** `BadFile`."""
    if not path.is_file():
        raise BadFile(f"{path} is missing: name a golden file, or pull or build its folder again.")
    try:
        arrays, facts = read_arrays(path)
    except (WeightsError, OSError) as error:
        raise BadFile(str(error)) from error
    stated = str(facts.get(INPUTS, ""))
    inputs = stated.split(",") if stated else [*INPUT_RANKS]
    fed = {name: arrays.pop(name) for name in inputs if name in arrays}
    odd = [name for name, value in fed.items() if value.ndim != INPUT_RANKS.get(name)]
    if not fed or not arrays or (odd and not stated) or not all(map(np.ndim, fed.values())):
        names = ascii([*fed, *arrays])[:200]
        raise BadFile(f"{path} holds no images or texts and outputs, but {names}.")
    model, reference, digest = (str(facts.get(name, "")) for name in TOLD)
    return Golden(model, reference, digest, fed, arrays)
