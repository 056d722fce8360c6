"""Explain why a checkpoint holds no network of the zoo, in a sentence that names the cause."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from weights import Checkpoint
from weights.errors import NotACheckpoint
from weights.initializers import Shape
from weights.load import find_nearest_naming
from weights.mapping import Naming, find_misfits, leaf_shape, plan, source_shapes
from weights.parameters import parameter
from weights.tensors import FLOATS
from weights.views import views_of
from zoo.architectures.architecture import CheckpointFacts, Config
from zoo.architectures.entry import ModelInfo, Published
from zoo.architectures.kinds import (
    MODEL_TYPES,
    complete_config,
    positions_in,
    read_sizes,
    with_one_head,
)
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.load import model_shapes, published_namings
from zoo.checkpoints.settings.settings_files import CONFIG, OF_LIBRARIES
from zoo.registry.lookup import MODELS

NUMBER = re.compile(r"\.(\d+)\.")
"""The number of a block in the path of a leaf."""

PATCHES, POSITIONS = "patch_embed.proj.weight", "global_pos_embed.weight"
"""Leaves of vision transformers: the patch embedding, and learned positions."""

SAVE_AGAIN = "and save the network again"

REPARAMETRISED = (
    (
        ("_orig", "_mask"),
        "pruned weights beside their masks",
        "call `torch.nn.utils.prune.remove` on each of these layers",
    ),
    (
        ("_g", "_v"),
        "weights as a length and a direction",
        "call `torch.nn.utils.remove_weight_norm` on each of these layers",
    ),
    (
        ("_orig", "_u"),
        "weights before they are divided by their spectral norm",
        "call `torch.nn.utils.remove_spectral_norm` on each of these layers",
    ),
)
"""Endings of the tensors that stand for one weight, what they hold, and what makes one of them."""

PARAMETRIZED = re.compile(r"(?:^|\.)parametrizations\.\w+\.(original|\d)")
FACTORS = re.compile(r"(?:^|[._])lora_(?:[AB]|up|down|alpha|magnitude_vector)(?:[._]|$)", re.I)
"""Names of an adapter's factors: of peft, of loralib and of diffusers."""


Reasons: TypeAlias = Mapping[str, Sequence[str]]


class Misfit(NamedTuple):
    """A network that a part of a checkpoint nearly is, and what does not fit, by what is wrong."""

    entry: ModelInfo
    published: Published
    view: Checkpoint
    reasons: Reasons

    @property
    def naming(self) -> Naming:
        """The names of the part's tensors."""
        return self.published.naming

    @property
    def total(self) -> int:
        """How many tensors do not fit."""
        return sum(map(len, self.reasons.values()))

    @property
    def told(self) -> str:
        """Words about what does not fit, with the names that the file has."""
        prefix = self.view.prefix
        return "; ".join(
            f"{len(names)} {what}: {few([f'{prefix}{name}' for name in names], 100)}"
            for what, names in self.reasons.items()
            if names
        )


def strange(checkpoint: Checkpoint, settings: Settings | None) -> str:
    """Describe a checkpoint that is of no network of the zoo, in a sentence."""
    if reason := stored_otherwise(checkpoint):
        return f"{checkpoint.path} {reason}"
    is_read = settings is not None and settings.model_type in MODEL_TYPES
    if settings is not None and not is_read and (name := settings.class_name):
        return (
            f"{checkpoint.path} holds no network of an architecture of the zoo: {CONFIG} beside it "
            f"says that it is a {name}. Name a model with its weights, or give a file of "
            "`zoo list`'s."
        )
    try:
        naming, view = find_nearest_naming(published_namings(), checkpoint)
    except NotACheckpoint as error:
        return f"{checkpoint.path} holds no network of an architecture of the zoo: {error}"
    if reason := _channels(naming, view):
        return f"{checkpoint.path} holds no network of an architecture of the zoo: {reason}."
    misfits_of_file = nearest_misfits(checkpoint, settings)
    if not misfits_of_file or not misfits_of_file[0].total:
        if reason := _grid(naming, view):
            return f"{checkpoint.path} holds no network of an architecture of the zoo: {reason}."
        named = [
            (entry.family, each.config)
            for entry in MODELS.values()
            for each in entry.readable
            if each.naming == naming
        ]
        texts = (_read_text(naming, view, config) for _, config in named)
        sizes = next(filter(None, texts), "none")
        return _advised(
            checkpoint, named[0][0], naming, f"sizes that no network of it has ({sizes})"
        )
    first, *rest = misfits_of_file
    alternatives = (f" (or like {each.entry.family}, but for {each.told})" for each in rest)
    faults = first.told + "".join(alternatives)
    return _advised(checkpoint, first.entry.family, first.naming, faults)


def _read_text(naming: Naming, view: Checkpoint, usual: Config) -> str:
    """Return the sizes of a file as those of a network's architecture, in words; empty where they
    cannot be read."""
    config = read_sizes(usual, partial(leaf_shape, naming, view.tensors))
    return config.text if config is not None else ""


def contradiction(checkpoint: Checkpoint, settings: Settings | None, best: Checkpoint) -> str:
    """Return what does not fit the larger network of which `best` is a part; empty where there is
    none that nearly fits."""
    misfit = next(iter(nearest_misfits(checkpoint, settings, len(best.tensors))), None)
    if misfit is None or not 0 < NEARLY * misfit.total <= len(misfit.view.tensors):
        return ""
    alone = f" {parameter('take')} {best.prefix} reads that part alone." if best.prefix else ""
    return _advised(best, misfit.entry.family, misfit.naming, misfit.told) + alone


NEARLY = 10
"""A network nearly fits if one of so many tensors does not."""


def _advised(checkpoint: Checkpoint, family: str, naming: Naming, told: str) -> str:
    return (
        f"{checkpoint.path} holds no network of an architecture of the zoo. It is most like "
        f"{family}, in the names of {naming.name}, but for {told}. Give the checkpoint as its "
        "library saves it, or export the whole model with `converter.to_onnx`."
    )


def stored_otherwise(checkpoint: Checkpoint) -> str:
    """Return in what form other than floats of each layer a checkpoint keeps its weights, and how
    to save them as those; empty where it does not."""
    tensors = checkpoint.tensors
    whole = [
        key
        for key, each in tensors.items()
        if len(each.shape) > 1 and each.dtype not in FLOATS and "weight" in key.rpartition(".")[2]
    ]
    if whole:
        return (
            f"holds layers in whole numbers ({few(whole[:1])} in {tensors[whole[0]].dtype}), and "
            "nothing of the zoo says what they stand for: save the network in floats, and make it "
            f"smaller with {parameter('precision')}."
        )
    if factors := [key for key in tensors if FACTORS.search(key)]:
        return (
            f"holds factors of an adapter among its tensors ({few(factors[:1])}), and no tensor "
            "tells their scale: save what `merge_and_unload()` gives, or let peft's "
            "`save_pretrained` write a folder of the adapter, and name that with "
            f"{parameter('base')}."
        )
    for (first, second), words, advice in REPARAMETRISED:
        split = [key for key in tensors if _is_split(key, first, second, tensors)]
        if split:
            both = few([split[0], split[0].removesuffix(first) + second])
            return f"holds {words} ({both}): {advice}, {SAVE_AGAIN}."
    if found := [key for key in tensors if PARAMETRIZED.search(key)]:
        return (
            f"holds weights that a parametrization computes ({few(found[:1])}): call "
            "`torch.nn.utils.parametrize.remove_parametrizations` on each of these layers, "
            f"{SAVE_AGAIN}."
        )
    return ""


def _is_split(key: str, first: str, second: str, keys: Collection[str]) -> bool:
    """Return whether two tensors stand for the weight of a layer of a network. The last layer of
    self-supervised training, which is no part of one, is kept so by its authors."""
    stem = key.removesuffix(first)
    is_weight = stem != key and stem.rpartition(".")[2] in ("weight", "bias")
    return is_weight and stem + second in keys and ".last_layer." not in f".{key}"


MOST_NEAREST = 3
"""How many networks are named that fit a checkpoint equally well."""


def nearest_misfits(
    checkpoint: Checkpoint, settings: Settings | None, least: int = 0
) -> list[Misfit]:
    """Return the networks that fit a part of a checkpoint best, of the architectures that share
    most names with it. Networks that miss the same tensors are given once.

    The part has more than `least` tensors. A network of the type in the settings comes first, and
    then alone.
    """
    parts = views_of(checkpoint)
    near = [
        (entry, published, view)
        for entry in MODELS.values()
        for published in entry.readable[:-1]
        for view in parts(published.naming)
        if len(view.tensors) > least and _knows_most(published.naming, view)
    ]
    sized = [
        Misfit(*each, reasons) for each in near if (reasons := _sized_misfits(*each[1:], settings))
    ]
    # The networks of a family need the same names, and large ones take their time to be built.
    first = {
        (entry.family, published.naming.name, view.prefix): (entry, published, view)
        for entry, published, view in reversed(near)
    }
    known = {(each.entry.family, each.naming.name, each.view.prefix) for each in sized}
    others = [each for key, each in first.items() if key not in known]
    found = sized + [Misfit(*each, _name_misfits(*each[1:])) for each in others]
    stated = settings.model_type if settings else ""
    if not found:
        return []
    found.sort(key=lambda each: (each.total, each.entry.family != stated))
    best = [each for each in found if each.total == found[0].total]
    if found[0].entry.family == stated:
        return best[:1]
    distinct: dict[str, Misfit] = {}
    for each in best:
        distinct.setdefault(each.told, each)
    return [*distinct.values()][:MOST_NEAREST]


def _knows_most(naming: Naming, view: Checkpoint) -> bool:
    known = sum(naming.has_key(key) for key in view.tensors)
    return known > 0 and 2 * known >= len(view.tensors)


def _sized_misfits(
    published: Published, view: Checkpoint, settings: Settings | None
) -> Reasons | None:
    """Return what does not fit a network of an entry's architecture in the sizes of a file; None
    where those cannot be read."""
    naming, usual = published.naming, published.config
    config = read_sizes(usual, SiblingShapes(naming, view, usual).find)
    facts = CheckpointFacts(naming.name, settings, bool(view.head))
    config = config and complete_config(config, facts)
    if config is not None and not config.is_sound:
        config = with_one_head(config)
    if config is None or not config.is_sound or not all(map(naming.has_leaf, model_shapes(config))):
        return None
    reasons = find_misfits(naming, plan(naming.rules, model_shapes(config)), view.tensors)
    return {**reasons, "missing": [*reasons["missing"], *_weights_of(reasons["unexpected"], view)]}


def _weights_of(biases: Sequence[str], view: Checkpoint) -> list[str]:
    """Return the weights that a file lacks of layers of which it has the bias."""
    stems = (key.removesuffix(".bias") for key in biases if key.endswith(".bias"))
    return [f"{stem}.weight" for stem in stems if f"{stem}.weight" not in view.tensors]


def _name_misfits(published: Published, view: Checkpoint) -> Reasons:
    """Return the names that the networks of an entry's family need and a file lacks, and those that
    are none of theirs; blocks are not counted."""
    naming, shapes = published.naming, model_shapes(published.config)
    named = {path: shape for path, shape in shapes.items() if naming.has_leaf(path)}
    plans = plan(naming.rules, named)
    reasons = find_misfits(naming, plans, view.tensors)
    there = {_unnumbered(key) for key in view.tensors}
    needed = {_unnumbered(key) for key in source_shapes(plans)}
    absent = {_unnumbered(key): key for key in reversed(reasons["missing"])}
    return {
        "missing": [key for name, key in absent.items() if name not in there],
        "unexpected": [key for key in reasons["unexpected"] if _unnumbered(key) not in needed],
    }


def _unnumbered(key: str) -> str:
    return re.sub(r"\d+", "0", key)


class SiblingShapes:
    """Shapes of leaves as a file has them; of a block that lacks one, those of another block, and
    of positions that it lacks, the usual ones. So the sizes of an incomplete file can be read."""

    def __init__(self, naming: Naming, view: Checkpoint, usual: Config):
        self.own = partial(leaf_shape, naming, view.tensors)
        self.leaves = {naming.leaf(key) or "" for key in view.tensors}
        self.positions = positions_in(usual)

    @cached_property
    def blocks(self) -> Mapping[str, Collection[str]]:
        """Numbers of the blocks that have any leaf, by what comes before the number."""
        found: dict[str, dict[str, None]] = {}
        for leaf in self.leaves:
            for match in NUMBER.finditer(leaf):
                found.setdefault(leaf[: match.start() + 1], {})[match[1]] = None
        return found

    def find(self, leaf: str) -> Shape | None:
        """Return the shape of a leaf; None where neither the file nor a block like its own has
        it."""
        if (shape := self.own(leaf)) is not None:
            return shape
        if leaf.endswith(POSITIONS) and self.positions is not None:
            patch = self.own(leaf.removesuffix(POSITIONS) + PATCHES) or (0,)
            return self.positions.patches + self.positions.prefix, patch[0]
        siblings = (self.own(each) for each in self._siblings(leaf))
        return next((each for each in siblings if each is not None), None)

    def _siblings(self, leaf: str) -> Iterator[str]:
        """Yield the same leaf of other blocks, the nearest first; none of a block that is not
        there."""
        numbers = [*NUMBER.finditer(leaf)]
        if numbers and numbers[-1][1] in self.blocks.get(leaf[: numbers[-1].start() + 1], ()):
            for match in reversed(numbers):
                before = leaf[: match.start() + 1]
                for other in self.blocks.get(before, ()):
                    yield f"{before}{other}{leaf[match.end() - 1 :]}"


def _channels(naming: Naming, view: Checkpoint) -> str:
    """Return of how many channels pictures are, where the zoo's networks take others."""
    for part in ("", "vision.", "backbone."):
        for leaf in (PATCHES, "blocks.0.downsample.conv.weight"):
            kernel = leaf_shape(naming, view.tensors, part + leaf) or ()
            if len(kernel) == 4 and kernel[1] != 3:
                channels = f"{kernel[1]} channel{'s' if kernel[1] != 1 else ''}"
                return (
                    f"it takes pictures of {channels}, and the zoo's networks take 3: export the "
                    "whole model with `converter.to_onnx`"
                )
    return ""


def _grid(naming: Naming, view: Checkpoint) -> str:
    """Return that positions are of no square grid, of which no tensor tells the sides."""
    for part in ("", "vision.", "backbone."):
        table = leaf_shape(naming, view.tensors, part + POSITIONS)
        readable = (each for entry in MODELS.values() for each in entry.readable)
        places = (positions_in(each.config) for each in readable if each.naming == naming)
        patches = {table[0] - where.prefix for where in places if table and where is not None}
        if patches and all(count < 0 or math.isqrt(count) ** 2 != count for count in patches):
            return (
                f"its {min(patches)} positions are of no square grid, and no tensor tells of "
                'which: write {"image_size": [HEIGHT, WIDTH]} of the pictures of training into '
                f"{settings_place(view.path)}"
            )
    return ""


def settings_place(path: Path) -> str:
    """Return where settings are read that belong to a checkpoint, and what to name then."""
    if path.is_dir():
        return f"{CONFIG} in {path}, and name that folder again"
    if OF_LIBRARIES.fullmatch(path.name):
        return f"a {CONFIG} beside {path.name}, and name the file again"
    return (
        f"a {CONFIG} beside {path.name}, in a folder without another checkpoint, and name the file "
        "again"
    )


def few(names: Sequence[str], most: int = 60) -> str:
    """Return the first five, which come from a file and may be anything."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(ascii(name)[1:-1][:most] for name in names[:5]) + more
