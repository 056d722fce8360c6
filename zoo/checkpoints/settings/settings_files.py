"""Read the settings files in a checkpoint's folder, and check every value that is used.

The files may come from a stranger.
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
from zoo.checkpoints.settings.processors import Processor, WholeProcessor
from zoo.common.fields import Model, first_fault
from zoo.images.preprocessing import Preprocessing

CONFIG = "config.json"
PROCESSOR = "preprocessor_config.json"
WHOLE_PROCESSOR = "processor_config.json"  # of pictures and texts


OF_LIBRARIES = re.compile(r"(model|pytorch_model)(\.\w+)*")
"""What transformers and timm call a checkpoint, beside which its settings lie."""
LARGEST_SETTINGS = 4 << 20  # bytes of settings; the names of 20,000 classes are 1 MB

Read = TypeVar("Read", bound=Model)


class SettingsBeside(NamedTuple):
    """Settings beside tensors: `config.json`, how pictures are made, and in words those of pictures
    that the zoo does not know or does not follow."""

    settings: Settings | None
    pictures: Preprocessing | None
    said: tuple[str, ...] = ()


def read_settings(checkpoint: Checkpoint) -> SettingsBeside:
    """Settings beside the tensors of transformers or timm, and how they take pictures. Beside a
    file that is called otherwise they may be anything, and those that cannot be followed are said.
    **Raises** `MappingError` where that of a library is damaged, or is nothing that the zoo does.
    """
    path = checkpoint.path
    if path.is_dir() or OF_LIBRARIES.fullmatch(path.name):
        return _in_folder(path if path.is_dir() else path.parent)
    if any(OF_LIBRARIES.fullmatch(each.name) for each in path.parent.iterdir()):
        return SettingsBeside(None, None)  # they are of another file
    try:
        beside = _in_folder(path.parent)
    except MappingError as error:
        return SettingsBeside(None, None, (f"what lies beside it had no effect: {error}",))
    if beside.settings is not None and beside.settings.model_type not in {"", *MODEL_TYPES}:
        kind = ascii(beside.settings.class_name)[1:-1][:60]
        return SettingsBeside(None, None, (f"{CONFIG} beside it is of {kind}, and had no effect",))
    return beside


def _in_folder(folder: Path) -> SettingsBeside:
    settings = _read(folder / CONFIG, Settings)
    whole = _read(folder / WHOLE_PROCESSOR, WholeProcessor)
    inner = whole.image_processor if whole else None
    # As transformers does: what the file of both says goes before.
    processor = inner or _read(folder / PROCESSOR, Processor)
    said = [*_without_effect(WHOLE_PROCESSOR, whole.unheard_of)] if whole else []
    if processor is not None:
        said += _without_effect(WHOLE_PROCESSOR if inner else PROCESSOR, processor.unheard_of)
        if processor.kind.differs:
            said.append(f"{processor.kind.name}ImageProcessor {processor.kind.differs}")
        return SettingsBeside(settings, processor.preprocessing, tuple(said))
    pictures = settings.pretrained_cfg if settings else None
    return SettingsBeside(settings, pictures.preprocessing if pictures else None, tuple(said))


def _without_effect(file: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield without_effect(file, names)


def without_effect(file: str, names: Sequence[str]) -> str:
    """Words about settings in a file that the zoo does not know."""
    shown = ", ".join(ascii(name)[1:-1][:60] for name in names[:6])
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{len(names)} settings in {file} had no effect: {shown}{more}"


def with_temperature(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint of TIPS with the temperature that its settings have in place of a tensor, as
    those that were published for transformers. **Raises** as `read_settings`."""
    if "temperature" in checkpoint.tensors or not any(
        key.startswith(TEXTS) for key in checkpoint.tensors
    ):
        return checkpoint
    settings = read_settings(checkpoint).settings
    if settings is None or (value := settings.temperature_init_value) is None:
        return checkpoint
    tensor = LazyTensor((), "float32", lambda: np.array(value, np.float32))
    return replace(checkpoint, tensors={**checkpoint.tensors, "temperature": tensor})


def _read(path: Path, kind: type[Read]) -> Read | None:
    """The settings in a file, None without one."""
    try:
        content = read_at_most(path, LARGEST_SETTINGS + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MappingError(
            f"{path} cannot be read ({error.strerror}): make it readable, or take it away."
        ) from error
    try:
        if len(content) <= LARGEST_SETTINGS:
            return kind.model_validate_json(as_utf8(content))
        trouble = f"it has more than {LARGEST_SETTINGS >> 20} MB"
    except ValidationError as error:
        trouble = first_fault(error)
    raise MappingError(f"{path} cannot be used: {trouble}. Mend it, or take it away.")
