"""Read the class names of a checkpoint from its settings files, or from tables that a training
script saved in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from weights import Checkpoint
from weights.errors import MappingError
from zoo.architectures.architecture import Config
from zoo.architectures.entry import NO_CLASS, ModelInfo
from zoo.architectures.library_settings import Settings, numbered_names
from zoo.checkpoints.settings.settings_files import CONFIG

NAMES_BY_NUMBER = ("class_names", "label_names", "id2label", "idx_to_class")
"""Keys under which training scripts save class names by their numbers."""
NUMBERS_BY_NAME = ("label2id", "class_to_idx")
"""Keys under which training scripts save the numbers of classes by their names."""


class StoredClassNames(NamedTuple):
    """Class names that a file stores.

    Arguments:
        names: names by the number of the class.
        source: where they are stored, in words.
        is_complete: whether the table names every class of its network. If it has another number of
            names than the network has classes, it belongs to another network.
    """

    names: Mapping[int, str]
    source: str
    is_complete: bool


class ClassNames(NamedTuple):
    """Class names of a network, as a checkpoint stores them.

    Arguments:
        names: names in the order of the classes, or None if no usable names are stored.
        warnings: sentences about stored names and numbers of classes that had no effect.
    """

    names: tuple[str, ...] | None
    warnings: tuple[str, ...] = ()


def read_class_names(
    entry: ModelInfo,
    config: Config,
    settings: Settings | None,
    checkpoint: Checkpoint,
) -> ClassNames:
    """Return the class names that a checkpoint stores for its network, and warnings about unused
    names.

    The names are read from the settings, or else from tables that a training script saved in the
    checkpoint. The first names that fit the number of classes are returned. Names before them cause
    a warning. A class without a name is called by its number. The names are None if the network has
    no classes, or if no stored names fit.

    A published network may have numbers that stand for no class, as RF-DETR has for COCO. If the
    stored names are those of `entry` for all other numbers, `entry.class_names` are returned.

    **Arguments:**

    - `entry`: registry entry of the published model.
    - `config`: configuration of the network in the checkpoint.
    - `settings`: contents of its `config.json`, or None without one.
    - `checkpoint`: the part of the checkpoint that is the network.

    **Raises** `MappingError` if the settings name all classes of a network with another number of
    classes, and the classifier has the name that its publisher gives it. For any other classifier,
    such names cause a warning.
    """
    if not config.classes:
        return ClassNames(None)
    warnings = [*_warn_about_counts(settings, config.classes)]
    for numbered in (*_read_from_settings(settings), *_read_from_tables(checkpoint, warnings)):
        if _are_published_names(numbered, entry, config):
            return ClassNames(entry.class_names, tuple(warnings))
        if fault := _describe_wrong_count(numbered, config.classes):
            if numbered.is_complete and not checkpoint.head:
                raise MappingError(f"{fault}: give the settings that were saved with it.")
            warnings.append(f"{fault}: they had no effect")
            continue
        names = [numbered.names.get(number) or str(number) for number in range(config.classes)]
        warnings += _warn_about_missing_names(numbered, config.classes)
        return ClassNames(tuple(names), tuple(warnings))
    return ClassNames(None, tuple(warnings))


def _read_from_settings(settings: Settings | None) -> Iterator[StoredClassNames]:
    """Yield the class names in `config.json`: timm's, and those of transformers."""
    if settings is None:
        return
    if timm_names := settings.label_names or _read_earlier_timm_names(settings):
        is_complete = len(timm_names) == max(timm_names) + 1
        yield StoredClassNames(timm_names, f"label_names in {CONFIG}", is_complete)
    if settings.id2label:
        yield StoredClassNames(settings.id2label, f"id2label in {CONFIG}", True)
    else:
        yield from _read_label2id(settings)


def _read_earlier_timm_names(settings: Settings) -> dict[int, str]:
    """Return the class names that earlier versions of timm wrote, in `pretrained_cfg` or under
    `labels`, by number.

    The result is empty if there are none. **Raises** `MappingError` if they are not a list or
    dictionary of names.
    """
    nested = settings.pretrained_cfg and settings.pretrained_cfg.model_extra
    top_level = settings.model_extra if settings.architecture else None
    names = (nested or {}).get("label_names") or (top_level or {}).get("labels")
    try:
        return numbered_names("label_names", names)
    except ValueError as error:
        raise MappingError(
            f"{CONFIG} beside the checkpoint cannot be used: {error}. Correct it, or remove it."
        ) from error


def _read_label2id(settings: Settings) -> Iterator[StoredClassNames]:
    """Yield the class names in `label2id`, for settings that lack `id2label`. Transformers does not
    read them."""
    numbers_by_name = (settings.model_extra or {}).get("label2id")
    try:
        names = numbered_names("label2id", numbers_by_name, names_first=True)
    except ValueError:
        return
    if names:
        yield StoredClassNames(names, f"label2id in {CONFIG}", False)


def _read_from_tables(checkpoint: Checkpoint, warnings: list[str]) -> Iterator[StoredClassNames]:
    """Yield the class names that a training script saved in the checkpoint.

    A sentence is appended to `warnings` for a table that cannot be used.
    """
    for path, table in checkpoint.tables.items():
        name = path.rpartition(".")[2]
        if name not in (*NAMES_BY_NUMBER, *NUMBERS_BY_NAME):
            continue
        try:
            names = numbered_names(path, table, names_first=name in NUMBERS_BY_NAME)
        except ValueError as error:
            warnings.append(f"names of classes in it had no effect: {error}")
            continue
        if names:
            yield StoredClassNames(names, f"{ascii(path)[1:-1][:60]} in it", False)


def _are_published_names(numbered: StoredClassNames, entry: ModelInfo, config: Config) -> bool:
    """Return whether names are those of the published network without the entries that are no
    classes.

    RF-DETR counts COCO's 80 classes up to 90, and its own files list their names one by one.
    """
    published = entry.class_names if entry.config.classes == config.classes else ()
    names = tuple(numbered.names[number] for number in sorted(numbered.names))
    return names == tuple(name for name in published if name != NO_CLASS) != published


def _describe_wrong_count(numbered: StoredClassNames, classes: int) -> str:
    """Return a sentence if stored names do not fit the number of classes, otherwise an empty
    string."""
    count = len(numbered.names)
    is_wrong = (
        count != classes if numbered.is_complete else not set(numbered.names) <= {*range(classes)}
    )
    if not is_wrong:
        return ""
    if numbered.is_complete:
        return (
            f"{CONFIG} beside the checkpoint names {count} classes, and its classifier has "
            f"{classes}"
        )
    return (
        f"{numbered.source} names {count} classes up to number {max(numbered.names)}, and its "
        f"classifier has {classes}"
    )


def _warn_about_missing_names(numbered: StoredClassNames, classes: int) -> Iterator[str]:
    """Yield a warning if some of the `classes` classes have no name. It also lists names for
    numbers that are no classes."""
    missing = [number for number in range(classes) if not numbered.names.get(number)]
    invalid = [number for number in numbered.names if not 0 <= number < classes]
    if missing:
        also_named = (
            f", and names for {_join_numbers(invalid)}, which are no classes of it"
            if invalid
            else ""
        )
        yield (
            f"{numbered.source} has no names for {len(missing)} of {classes} classes "
            f"({_join_numbers(missing)}){also_named}: they are called by their numbers"
        )


def _join_numbers(numbers: list[int]) -> str:
    """Return numbers separated by commas. Only the first six are written out."""
    return ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")


def _warn_about_counts(settings: Settings | None, classes: int) -> Iterator[str]:
    """Yield a warning for each number of classes in the settings that differs from the
    classifier's.

    `classes` is the number of classes of the classifier.
    """
    extra = (settings and settings.model_extra) or {}
    for name in ("num_labels", "num_classes"):
        if type(count := extra.get(name)) is int and count != classes:
            yield (
                f"{name} in {CONFIG} is {count}, and its classifier has {classes} outputs: it had "
                "no effect"
            )
