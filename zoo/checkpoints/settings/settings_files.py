"""Read the settings files in a checkpoint's folder, and check every value that is used.

The files are not trusted: they may be damaged or made to do harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import ValidationError

from weights import Checkpoint
from weights.errors import MappingError
from weights.namings.tower_names import TEXTS
from weights.opening import as_utf8, read_at_most
from weights.tensors import LazyTensor
from zoo.architectures.kinds import MODEL_TYPES
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.settings.processors import CombinedProcessor, Processor
from zoo.common.fields import Model, first_fault
from zoo.images.preprocessing import Preprocessing

CONFIG = "config.json"
"""Settings file of the network, by transformers or timm."""
PROCESSOR = "preprocessor_config.json"
"""Settings file for the preprocessing of pictures."""
COMBINED_PROCESSOR = "processor_config.json"
"""Settings file for pictures and texts together."""


LIBRARY_FILE_NAME = re.compile(r"(model|pytorch_model)(\.\w+)*")
"""File names that transformers and timm give to a checkpoint. Its settings files are then in the
same folder."""
MAX_SETTINGS_BYTES = 4 << 20
"""Largest size of a settings file. The names of 20,000 classes take 1 MB."""

SettingsModel = TypeVar("SettingsModel", bound=Model)


class CheckpointSettings(NamedTuple):
    """Contents of the settings files of a checkpoint.

    Arguments:
        settings: contents of `config.json`, or None if there is none.
        pictures: the preprocessing of pictures, or None if no file states it.
        warnings: sentences about settings that had no effect, because the zoo does not know or does
            not follow them.
    """

    settings: Settings | None
    pictures: Preprocessing | None
    warnings: tuple[str, ...] = ()


def read_settings(checkpoint: Checkpoint) -> CheckpointSettings:
    """Return the contents of the settings files in the folder of a checkpoint.

    The files belong to the checkpoint if it is a folder or has a file name of transformers or timm.
    For another file name they may belong to anything: files that cannot be used, or that describe a
    network of an unknown type, are then ignored with a warning. All are ignored without a warning
    if the folder has another checkpoint with such a file name. Fields are None for files that do
    not exist.

    **Raises** `MappingError` if a settings file of the checkpoint is damaged, or asks for
    preprocessing that the zoo does not have.
    """
    path = checkpoint.path
    if path.is_dir() or LIBRARY_FILE_NAME.fullmatch(path.name):
        return _read_folder(path if path.is_dir() else path.parent)
    if any(LIBRARY_FILE_NAME.fullmatch(file.name) for file in path.parent.iterdir()):
        return CheckpointSettings(None, None)  # the files belong to another checkpoint
    try:
        contents = _read_folder(path.parent)
    except MappingError as error:
        return CheckpointSettings(None, None, (f"what lies beside it had no effect: {error}",))
    if contents.settings is not None and contents.settings.model_type not in {
        "",
        *MODEL_TYPES,
    }:
        class_name = ascii(contents.settings.class_name)[1:-1][:60]
        return CheckpointSettings(
            None, None, (f"{CONFIG} beside it is of {class_name}, and had no effect",)
        )
    return contents


def _read_folder(folder: Path) -> CheckpointSettings:
    """Return the contents of the settings files in a folder.

    **Raises** `MappingError` if one of them cannot be read or is not valid.
    """
    settings = _read_file(folder / CONFIG, Settings)
    combined = _read_file(folder / COMBINED_PROCESSOR, CombinedProcessor)
    image_processor = combined.image_processor if combined else None
    # As in transformers, the file for pictures and texts takes precedence.
    processor = image_processor or _read_file(folder / PROCESSOR, Processor)
    warnings = (
        [*_warn_about_ignored(COMBINED_PROCESSOR, combined.unknown_settings)] if combined else []
    )
    if processor is not None:
        warnings += _warn_about_ignored(
            COMBINED_PROCESSOR if image_processor else PROCESSOR, processor.unknown_settings
        )
        if processor.kind.difference:
            warnings.append(f"{processor.kind.name}ImageProcessor {processor.kind.difference}")
        return CheckpointSettings(settings, processor.preprocessing, tuple(warnings))
    pictures = settings.pretrained_cfg if settings else None
    return CheckpointSettings(
        settings, pictures.preprocessing if pictures else None, tuple(warnings)
    )


def _warn_about_ignored(file: str, names: Sequence[str]) -> Iterator[str]:
    """Yield one warning that the settings `names` of a file had no effect. Yield nothing if there
    are no names."""
    if names:
        yield describe_ignored_settings(file, names)


def describe_ignored_settings(file: str, names: Sequence[str]) -> str:
    """Return the sentence that the settings `names` of a file had no effect. Only six names are
    written out."""
    first_names = ", ".join(ascii(name)[1:-1][:60] for name in names[:6])
    remainder = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{len(names)} settings in {file} had no effect: {first_names}{remainder}"


def add_temperature_tensor(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint of TIPS with a tensor `temperature`, read from its settings if it has
    none.

    Files that were published for transformers have the temperature in `config.json` in place of a
    tensor. Other checkpoints, and those without this setting, are returned unchanged. **Raises**
    `MappingError` if the settings cannot be read.
    """
    if "temperature" in checkpoint.tensors or not any(
        key.startswith(TEXTS) for key in checkpoint.tensors
    ):
        return checkpoint
    settings = read_settings(checkpoint).settings
    if settings is None or (value := settings.temperature_init_value) is None:
        return checkpoint
    tensor = LazyTensor((), "float32", lambda: np.array(value, np.float32))
    return replace(checkpoint, tensors={**checkpoint.tensors, "temperature": tensor})


def _read_file(path: Path, model: type[SettingsModel]) -> SettingsModel | None:
    """Return the contents of a settings file, checked by the pydantic class `model`, or None if the
    file does not exist.

    **Raises** `MappingError` if the file cannot be read, is too large or is not valid.
    """
    try:
        content = read_at_most(path, MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MappingError(
            f"{path} cannot be read ({error.strerror}): make it readable, or remove it."
        ) from error
    try:
        if len(content) <= MAX_SETTINGS_BYTES:
            return model.model_validate_json(as_utf8(content))
        fault = f"it has more than {MAX_SETTINGS_BYTES >> 20} MB"
    except ValidationError as error:
        fault = first_fault(error)
    raise MappingError(f"{path} cannot be used: {fault}. Correct it, or remove it.")
