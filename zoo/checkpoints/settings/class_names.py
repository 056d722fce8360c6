"""What the classes of a checkpoint are called, by number: from the settings beside it, or from what
a training script saved in it."""

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
NUMBERS_BY_NAME = ("label2id", "class_to_idx")
"""What training scripts call the names of classes in what they save."""


class StatedNames(NamedTuple):
    """Names of classes by number, and where they are. Those that are `complete` name every class of
    the network that they are of."""

    names: Mapping[int, str]
    source: str
    complete: bool


class ClassNames(NamedTuple):
    """Names of a network's classes, in their order: None where nothing states any. `said` are
    sentences about names that could not be used."""

    names: tuple[str, ...] | None
    said: tuple[str, ...] = ()


def read_class_names(
    entry: ModelInfo,
    config: Config,
    settings: Settings | None,
    checkpoint: Checkpoint,
) -> ClassNames:
    """Return the names of the classes of a network whose entry in the registry is `entry`.

    **Raises** `MappingError` where the settings beside the checkpoint name the classes of another
    network.
    """
    if not config.classes:
        return ClassNames(None)
    said = [*_contradictions(settings, config.classes)]
    for stated in (*_in_settings(settings), *_in_tables(checkpoint, said)):
        if _names_published(stated, entry, config):
            return ClassNames(entry.class_names, tuple(said))
        if trouble := _trouble(stated, config.classes):
            if stated.complete and not checkpoint.head:
                raise MappingError(f"{trouble}: give the settings that were saved with it.")
            said.append(f"{trouble}: they had no effect")
            continue
        names = [stated.names.get(number) or str(number) for number in range(config.classes)]
        said += _unnamed(stated, config.classes)
        return ClassNames(tuple(names), tuple(said))
    return ClassNames(None, tuple(said))


def _in_settings(settings: Settings | None) -> Iterator[StatedNames]:
    if settings is None:
        return
    if by_timm := settings.label_names or _names_of_timm(settings):
        is_list = len(by_timm) == max(by_timm) + 1
        yield StatedNames(by_timm, f"label_names in {CONFIG}", is_list)
    if settings.id2label:
        yield StatedNames(settings.id2label, f"id2label in {CONFIG}", True)
    else:
        yield from _by_name(settings)


def _names_of_timm(settings: Settings) -> dict[int, str]:
    """Names where earlier versions of timm have them: in `pretrained_cfg`, or called `labels`."""
    inside = settings.pretrained_cfg and settings.pretrained_cfg.model_extra
    outside = settings.model_extra if settings.architecture else None
    stated = (inside or {}).get("label_names") or (outside or {}).get("labels")
    try:
        return numbered_names("label_names", stated)
    except ValueError as error:
        raise MappingError(
            f"{CONFIG} beside the checkpoint cannot be used: {error}. Mend it, or take it away."
        ) from error


def _by_name(settings: Settings) -> Iterator[StatedNames]:
    """Names in `label2id`, which transformers does not read where `id2label` is missing."""
    stated = (settings.model_extra or {}).get("label2id")
    try:
        names = numbered_names("label2id", stated, names_first=True)
    except ValueError:
        return
    if names:
        yield StatedNames(names, f"label2id in {CONFIG}", False)


def _in_tables(checkpoint: Checkpoint, said: list[str]) -> Iterator[StatedNames]:
    """Names that a training script has saved; why those of one table are none is said."""
    for path, table in checkpoint.tables.items():
        name = path.rpartition(".")[2]
        if name not in (*NAMES_BY_NUMBER, *NUMBERS_BY_NAME):
            continue
        try:
            names = numbered_names(path, table, names_first=name in NUMBERS_BY_NAME)
        except ValueError as error:
            said.append(f"names of classes in it had no effect: {error}")
            continue
        if names:
            yield StatedNames(names, f"{ascii(path)[1:-1][:60]} in it", False)


def _names_published(stated: StatedNames, entry: ModelInfo, config: Config) -> bool:
    """Whether names are those of the published network without the numbers that are of no class.

    RF-DETR counts COCO's 80 classes up to 90, and its own files list their names one by one.
    """
    published = entry.class_names if entry.config.classes == config.classes else ()
    names = tuple(stated.names[number] for number in sorted(stated.names))
    return names == tuple(name for name in published if name != NO_CLASS) != published


def _trouble(stated: StatedNames, classes: int) -> str:
    """Words about names that are of another network; empty where they may be of this one."""
    count = len(stated.names)
    is_other = count != classes if stated.complete else not set(stated.names) <= {*range(classes)}
    if not is_other:
        return ""
    if stated.complete:
        return (
            f"{CONFIG} beside the checkpoint names {count} classes, and its classifier has "
            f"{classes}"
        )
    return (
        f"{stated.source} names {count} classes up to number {max(stated.names)}, and its "
        f"classifier has {classes}"
    )


def _unnamed(stated: StatedNames, classes: int) -> Iterator[str]:
    """A sentence about the classes without a name, and about names of no class."""
    missing = [number for number in range(classes) if not stated.names.get(number)]
    strange = [number for number in stated.names if not 0 <= number < classes]
    if missing:
        others = f", and names for {_few(strange)}, which are no classes of it" if strange else ""
        yield (
            f"{stated.source} has no names for {len(missing)} of {classes} classes "
            f"({_few(missing)}){others}: they are called by their numbers"
        )


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")


def _contradictions(settings: Settings | None, classes: int) -> Iterator[str]:
    """Sentences about counts of classes that are not those of the tensors."""
    extra = (settings and settings.model_extra) or {}
    for name in ("num_labels", "num_classes"):
        if type(stated := extra.get(name)) is int and stated != classes:
            yield (
                f"{name} in {CONFIG} is {stated}, and its classifier has {classes} outputs: it had "
                "no effect"
            )
