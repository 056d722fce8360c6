"""Convert a checkpoint to the format of another library (`zoo weights convert`)."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weights import Checkpoint
from weights.containers.safetensors import INDEX, TENSORS
from weights.initializers import Shape, round_to_bfloat16
from weights.mapping import Convention, Form
from weights.namings.eqx_names import LEAVES
from weights.progress import Progress
from weights.writers.equimo_writer import write_archive
from weights.writers.eqx_writer import write_eqx
from weights.writers.items import Items, byte_size, items_for
from weights.writers.pth_writer import write_pth
from weights.writers.safetensors_writer import write_safetensors
from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo, PublishedNaming
from zoo.checkpoints.load import LoadedWeights, load_checkpoint, model_shapes, naming_all_leaves
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.settings.library_configs import equimo_metadata, transformers_config
from zoo.checkpoints.settings.processors import transformers_processor
from zoo.checkpoints.settings.settings_files import CONFIG, PROCESSOR
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadOutput, BadRequest
from zoo.common.staging import (
    check_free,
    move_staged_files,
    staged,
    translate_write_errors,
    write_text,
)


@dataclass(frozen=True)
class ConversionResult:
    """Result of the conversion of a checkpoint.

    Arguments:
        target: the file or folder that was written.
        naming: convention of the tensor names in it.
        model: name of the model.
        filled: paths of leaves that the source does not have, which got their standard values.
        dropped: paths of leaves that the format has no tensor for.
        rounded: names of tensors that the format stores in bfloat16 and whose values are not exact
            in it.
        nonfinite: paths of leaves with NaN or infinite values.
    """

    target: Path
    naming: Convention
    model: str
    filled: tuple[str, ...]
    dropped: tuple[str, ...]
    rounded: tuple[str, ...]
    nonfinite: tuple[str, ...]


CHECKPOINT_SUFFIXES: Mapping[str, Form] = {
    ".tar.lz4": "equimo",
    ".pth": "pytorch",
    ".eqx": "equinox",
}
"""Formats of checkpoint files, by the end of the file name."""

TRANSFORMERS_FILES = (CONFIG, PROCESSOR, TENSORS)
"""Files of a folder that transformers loads."""


def read_format(target: Path) -> Form:
    """Return the checkpoint format that the name of a file or folder stands for.

    A name that ends as in `CHECKPOINT_SUFFIXES` stands for the format there. Any other name stands
    for Hugging Face if it has no suffix or is that of an existing folder.

    **Raises** `BadRequest` if the name stands for no format.
    """
    for suffix, form in CHECKPOINT_SUFFIXES.items():
        if target.name.endswith(suffix):
            return form
    if not target.suffix or target.is_dir():
        return "huggingface"
    raise BadRequest(
        f"{target} does not say which format to write: end it in .pth (Meta), .tar.lz4 (Equimo) "
        "or .eqx (Equinox), or name a folder without a dot (Hugging Face)."
    )


def naming_to_write(entry: ModelInfo, form: Form) -> PublishedNaming:
    """Return the tensor names for writing a model in a format, with the network in such files.

    **Raises** `BadRequest` if no library reads the model in this format.
    """
    namings = (
        published
        for published in entry.readable_namings
        if published.naming.convention.form == form
    )
    for published in naming_all_leaves(namings):
        return published
    forms = {"pytorch": "a .pth file", "huggingface": "a folder for transformers"}
    raise BadRequest(
        f"no program reads {entry.name} from {forms.get(form, 'an Equimo archive')}: choose "
        "another format."
    )


def leaves_to_write(
    entry: ModelInfo, published: PublishedNaming, config: Config
) -> dict[str, Shape]:
    """Return the path and shape of each leaf that a file with these tensor names holds.

    `config` is the configuration of the weights to write. **Raises** `BadRequest` if they lack one
    of these leaves, or if the format cannot record how the network differs from the published one.
    """
    if published.naming is LEAVES and config != entry.config:
        raise BadRequest(
            f"the checkpoint is of a network that differs in detail from `zoo.create("
            f"{entry.name!r})`, and an .eqx file cannot record the difference. Choose another "
            "format."
        )
    available, needed = model_shapes(config), model_shapes(published.config)
    if missing := [path for path, shape in needed.items() if available.get(path) != shape]:
        raise BadRequest(
            f"the checkpoint is of a network that differs from the one to write: it has no "
            f"{missing[0]} of shape {list(needed[missing[0]])}. Start from another checkpoint."
        )
    return needed


def find_dropped_leaves(loaded: LoadedWeights, leaves: Collection[str]) -> tuple[str, ...]:
    """Return the paths of the leaves for which a format has no tensor.

    `leaves` are those for which it has one. Leaves of zeros, such as some biases of ViT-5, are not
    reported, because dropping them changes nothing.
    """
    other_paths = (path for path in model_shapes(loaded.config) if path not in leaves)
    return tuple(path for path in other_paths if np.any(loaded.weights.arrays[path]))


def convert_file(
    source: GivenCheckpoint, target: Path, model: str | None, force: bool, progress: Progress
) -> ConversionResult:
    """Convert a checkpoint to the format that the name of `target` stands for, and write it there.

    Files are moved to `target` when all of them are complete. In an existing folder, other files
    are kept.

    **Arguments:**

    - `source`: the user's checkpoint.
    - `target`: path of the file or folder to write.
    - `model`: name of the model. With None or the name of a family, the network is identified from
      the checkpoint.
    - `force`: whether an existing file, or the files in an existing folder, may be replaced.
    - `progress`: reports progress.

    **Raises** a `ZooError` or a `WeightsError` if the checkpoint cannot be read or converted, or
    the target cannot be written.
    """
    form = read_format(target)
    _check_replaceable(target, form, force)
    entry, checkpoint = find_entry(model, source)
    assert isinstance(checkpoint, Checkpoint), "of a path"
    loaded = load_checkpoint(checkpoint, entry)
    weights, published = loaded.weights, naming_to_write(entry, form)
    naming, leaves = published.naming, leaves_to_write(entry, published, loaded.config)
    items = items_for(naming, weights.arrays, leaves)
    # The settings files describe the network of these weights, not the published one.
    described_entry = replace(entry, config=loaded.config)
    progress.stage(f"writing {target.name}", sum(map(byte_size, items.values())))
    with staged(target.parent) as stage, translate_write_errors(target):
        write_checkpoint_file(form, stage / target.name, items, described_entry, progress)
        bfloat16_values = {
            key: item.read() for key, item in items.items() if item.dtype == "bfloat16"
        }
        dropped = find_dropped_leaves(loaded, leaves)
        checkpoint.close()  # Windows does not replace an open file, which may be the source
        if target.is_dir():
            names = [name for name in TRANSFORMERS_FILES if (stage / target.name / name).exists()]
            move_staged_files(stage / target.name, target, names, last_name=CONFIG)
        else:
            os.replace(stage / target.name, target)
    rounded = (
        key
        for key, values in bfloat16_values.items()
        if np.any(values != round_to_bfloat16(values))
    )
    nonfinite = tuple(weights.arrays.nonfinite)
    return ConversionResult(
        target,
        naming.convention,
        entry.name,
        weights.filled_leaves,
        dropped,
        tuple(rounded),
        nonfinite,
    )


def _check_replaceable(target: Path, form: Form, force: bool) -> None:
    """Check that a checkpoint of this format can be written to `target`.

    **Raises** `BadOutput` if the target exists and `force` is false, if it is a folder where a file
    is to be written or the other way round, or if it holds a checkpoint in several files.
    """
    check_free(target, force)
    if target.is_dir() != (form == "huggingface") and os.path.lexists(target):
        kind = "a folder" if target.is_dir() else "no folder"
        raise BadOutput(f"{target} is {kind}, so it is not replaced: name another place.")
    if (target / INDEX).exists():
        raise BadOutput(
            f"{target / INDEX} belongs to a checkpoint in several files, and a single one is to be "
            "written: remove it, or name another folder."
        )


def write_checkpoint_file(
    form: Form, path: Path, items: Items, entry: ModelInfo, progress: Progress
) -> None:
    """Write tensors to a new file or folder in a format.

    `items` are the tensors by their names in the format. Formats with settings (Equimo and Hugging
    Face) get those of the network of `entry`.
    """
    if form == "pytorch":
        write_pth(path, items, progress)
    elif form == "equimo":
        write_archive(path, items, equimo_metadata(entry.config), progress)
    elif form == "equinox":
        write_eqx(path, items, progress)
    else:
        write_transformers_folder(path, items, entry, progress)


def write_transformers_folder(
    path: Path, items: Items, entry: ModelInfo, progress: Progress
) -> None:
    """Write a new folder that transformers loads: configuration and tensors, and the settings of
    the image processor if the network takes pictures.

    `items` are the tensors by their names in transformers, and `entry` describes the network and
    its preprocessing.
    """
    path.mkdir()
    key_bias = any(key.endswith(".k_proj.bias") for key in items)
    preprocessing = entry.preprocessing
    settings = transformers_config(entry.config, entry.class_names, key_bias, preprocessing.size)
    write_json(path / CONFIG, settings)
    if entry.config.pictures is not None:
        write_json(path / PROCESSOR, transformers_processor(preprocessing))
    write_safetensors(path / TENSORS, items, progress)


def write_json(path: Path, value: object) -> None:
    """Write a value as an indented JSON file."""
    write_text(path, json.dumps(value, indent=2) + "\n")
