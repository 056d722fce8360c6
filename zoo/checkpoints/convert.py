"""`zoo weights convert`: a checkpoint as another library wants it."""

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
from zoo.architectures.entry import ModelInfo, Published
from zoo.checkpoints.load import LoadedWeights, load_checkpoint, model_shapes, naming_all_leaves
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.settings.library_configs import equimo_metadata, transformers_config
from zoo.checkpoints.settings.processors import transformers_processor
from zoo.checkpoints.settings.settings_files import CONFIG, PROCESSOR
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadOutput, BadRequest
from zoo.common.staging import check_free, put, staged, write_text, writing


@dataclass(frozen=True)
class ConversionResult:
    """Result of a conversion: what was written, what the source did not say, and what the form has
    no place for.

    `rounded` are tensors that the form has in bfloat16 and whose values are others in it.
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

TRANSFORMERS_FILES = (CONFIG, PROCESSOR, TENSORS)  # what a folder for transformers consists of


def read_format(target: Path) -> Form:
    """Form of checkpoint to write, by the name of the place for it."""
    for end, form in CHECKPOINT_SUFFIXES.items():
        if target.name.endswith(end):
            return form
    if not target.suffix or target.is_dir():
        return "huggingface"
    raise BadRequest(
        f"{target} does not say which format to write: end it in .pth (Meta), .tar.lz4 (Equimo) "
        "or .eqx (Equinox), or name a folder without a dot (Hugging Face)."
    )


def naming_to_write(entry: ModelInfo, form: Form) -> Published:
    """The names of a model's tensors in a form, and the network that such files are of. **Raises**
    `BadRequest` if nobody reads it so."""
    written = (each for each in entry.readable if each.naming.convention.form == form)
    for each in naming_all_leaves(written):
        return each
    forms = {"pytorch": "a .pth file", "huggingface": "a folder for transformers"}
    raise BadRequest(
        f"no program reads {entry.name} from {forms.get(form, 'an Equimo archive')}: choose "
        "another format."
    )


def leaves_to_write(entry: ModelInfo, published: Published, config: Config) -> dict[str, Shape]:
    """The leaves that a file with these names has, all of which the weights must have. **Raises**
    `BadRequest` where they have not."""
    if published.naming is LEAVES and config != entry.config:
        raise BadRequest(
            f"the checkpoint is of a network that differs in detail from `zoo.create("
            f"{entry.name!r})`, and an .eqx file cannot say so. Choose another format."
        )
    have, needed = model_shapes(config), model_shapes(published.config)
    if lacking := [path for path, shape in needed.items() if have.get(path) != shape]:
        raise BadRequest(
            f"the checkpoint is of a network that differs from the one to write: it has no "
            f"{lacking[0]} of shape {list(needed[lacking[0]])}. Start from another checkpoint."
        )
    return needed


def lost(loaded: LoadedWeights, leaves: Collection[str]) -> tuple[str, ...]:
    """The leaves that a form has no place for; biases of zero, as ViT-5's, are no loss."""
    others = (path for path in model_shapes(loaded.config) if path not in leaves)
    return tuple(path for path in others if np.any(loaded.weights.arrays[path]))


def convert_file(
    source: GivenCheckpoint, target: Path, model: str | None, force: bool, progress: Progress
) -> ConversionResult:
    """Write the checkpoint of `source` as `target`, complete or not at all. **Raises** a `ZooError`
    or a `WeightsError`."""
    form = read_format(target)
    _check_replaceable(target, form, force)
    entry, checkpoint = find_entry(model, source)
    assert isinstance(checkpoint, Checkpoint), "of a path"
    loaded = load_checkpoint(checkpoint, entry)
    weights, published = loaded.weights, naming_to_write(entry, form)
    naming, leaves = published.naming, leaves_to_write(entry, published, loaded.config)
    items = items_for(naming, weights.arrays, leaves)
    # The settings that are written along are those of the network that the weights belong to.
    written = replace(entry, config=loaded.config)
    progress.stage(f"writing {target.name}", sum(map(byte_size, items.values())))
    with staged(target.parent) as stage, writing(target):
        write_as(form, stage / target.name, items, written, progress)
        halves = {key: item.read() for key, item in items.items() if item.dtype == "bfloat16"}
        dropped = lost(loaded, leaves)
        checkpoint.close()  # Windows does not replace an open file, which may be the source
        if target.is_dir():
            put(stage / target.name, target, TRANSFORMERS_FILES, last=CONFIG)
        else:
            os.replace(stage / target.name, target)
    rounded = (key for key, each in halves.items() if np.any(each != round_to_bfloat16(each)))
    nonfinite = tuple(weights.arrays.nonfinite)
    return ConversionResult(
        target, naming.convention, entry.name, weights.filled, dropped, tuple(rounded), nonfinite
    )


def _check_replaceable(target: Path, form: Form, force: bool) -> None:
    """**Raises** `BadOutput` where something is that the command may not replace."""
    check_free(target, force)
    if target.is_dir() != (form == "huggingface") and os.path.lexists(target):
        what = "a folder" if target.is_dir() else "no folder"
        raise BadOutput(f"{target} is {what}, so it is not replaced: name another place.")
    if (target / INDEX).exists():
        raise BadOutput(
            f"{target / INDEX} belongs to a checkpoint in several files, and a single one is to be "
            "written: remove it, or name another folder."
        )


def write_as(form: Form, path: Path, items: Items, entry: ModelInfo, progress: Progress) -> None:
    """A checkpoint in one of the forms."""
    if form == "pytorch":
        write_pth(path, items, progress)
    elif form == "equimo":
        write_archive(path, items, equimo_metadata(entry.config), progress)
    elif form == "equinox":
        write_eqx(path, items, progress)
    else:
        write_folder(path, items, entry, progress)


def write_folder(path: Path, items: Items, entry: ModelInfo, progress: Progress) -> None:
    """A folder that transformers loads."""
    path.mkdir()
    key_bias = any(key.endswith(".k_proj.bias") for key in items)
    how = entry.preprocessing
    settings = transformers_config(entry.config, entry.class_names, key_bias, how.size)
    write_json(path / CONFIG, settings)
    if entry.config.pictures is not None:
        write_json(path / PROCESSOR, transformers_processor(how))
    write_safetensors(path / TENSORS, items, progress)


def write_json(path: Path, value: object) -> None:
    """Write settings."""
    write_text(path, json.dumps(value, indent=2) + "\n")
