"""Explain in a sentence why a checkpoint holds no network of the zoo."""

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
from weights.mapping import Naming, find_misfits, leaf_shape, plan_leaves, source_shapes
from weights.parameters import parameter
from weights.tensors import FLOATS
from weights.views import views_of
from zoo.architectures.architecture import CheckpointFacts, Config
from zoo.architectures.entry import ModelInfo, PublishedNaming
from zoo.architectures.kinds import (
    MODEL_TYPES,
    complete_config,
    find_positions,
    read_sizes,
    with_neutral_values,
)
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.load import known_namings, model_shapes
from zoo.checkpoints.settings.settings_files import CONFIG, LIBRARY_FILE_NAME
from zoo.registry.lookup import MODELS

NUMBER = re.compile(r"\.(\d+)\.")
"""Number of a block in the path of a leaf."""

PATCHES, POSITIONS = "patch_embed.proj.weight", "global_pos_embed.weight"
"""Leaves of vision transformers: the patch embedding, and learned positions."""

SAVE_AGAIN = "and save the network again"

REPARAMETRIZATIONS = (
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
"""Endings of the names of two tensors that stand for one weight, a description of the pair, and the
call that turns it into one tensor."""

PARAMETRIZED = re.compile(r"(?:^|\.)parametrizations\.\w+\.(original|\d)")
"""Names of the tensors of `torch.nn.utils.parametrize`."""
FACTORS = re.compile(r"(?:^|[._])lora_(?:[AB]|up|down|alpha|magnitude_vector)(?:[._]|$)", re.I)
"""Names of the low-rank factors of an adapter, as peft, loralib and diffusers write them."""


Reasons: TypeAlias = Mapping[str, Sequence[str]]
"""Names of the tensors that do not fit, by reason, such as `missing` or `unexpected`."""


class Misfit(NamedTuple):
    """A published network that a part of a checkpoint nearly matches.

    Arguments:
        entry: registry entry of the published model.
        published: the naming in which the tensor names were read, with the published network.
        view: the part of the checkpoint.
        reasons: names of the tensors that do not fit, by reason.
    """

    entry: ModelInfo
    published: PublishedNaming
    view: Checkpoint
    reasons: Reasons

    @property
    def naming(self) -> Naming:
        """Naming in which the tensor names were read."""
        return self.published.naming

    @property
    def total(self) -> int:
        """Number of tensors that do not fit."""
        return sum(map(len, self.reasons.values()))

    @property
    def description(self) -> str:
        """The tensors that do not fit, in words, by reason and with their names in the file."""
        prefix = self.view.prefix
        return "; ".join(
            f"{len(names)} {reason}: {join_names([f'{prefix}{name}' for name in names], 100)}"
            for reason, names in self.reasons.items()
            if names
        )


def describe_mismatch(checkpoint: Checkpoint, settings: Settings | None) -> str:
    """Return the error message for a checkpoint in which no network of the zoo was found.

    It gives the cause, and usually also what to do. Causes are, for example, weights in a form that
    cannot be read, another architecture in `config.json`, and tensors or sizes that differ from
    those of the most similar network.

    **Arguments:**

    - `checkpoint`: the checkpoint in which no network was found.
    - `settings`: the contents of its `config.json`, or None without one.
    """
    if reason := describe_storage(checkpoint):
        return f"{checkpoint.path} {reason}"
    is_known_type = settings is not None and settings.model_type in MODEL_TYPES
    if settings is not None and not is_known_type and (name := settings.class_name):
        return (
            f"{checkpoint.path} holds no network of an architecture of the zoo: {CONFIG} beside it "
            f"says that it is a {name}. Name a model with its weights, or give a file of "
            "`zoo list`'s."
        )
    try:
        naming, view = find_nearest_naming(known_namings(), checkpoint)
    except NotACheckpoint as error:
        return f"{checkpoint.path} holds no network of an architecture of the zoo: {error}"
    if reason := _describe_channels(naming, view):
        return f"{checkpoint.path} holds no network of an architecture of the zoo: {reason}."
    misfits_of_file = find_nearest_misfits(checkpoint, settings)
    if not misfits_of_file or not misfits_of_file[0].total:
        if reason := _describe_grid(naming, view):
            return f"{checkpoint.path} holds no network of an architecture of the zoo: {reason}."
        same_naming = [
            (entry.family, published.config)
            for entry in MODELS.values()
            for published in entry.readable_namings
            if published.naming == naming
        ]
        texts = (_describe_sizes(naming, view, config) for _, config in same_naming)
        sizes = next(filter(None, texts), "none")
        return _with_advice(
            checkpoint, same_naming[0][0], naming, f"sizes that no network of it has ({sizes})"
        )
    first, *alternatives = misfits_of_file
    similar = (
        f" (or like {misfit.entry.family}, but for {misfit.description})" for misfit in alternatives
    )
    faults = first.description + "".join(similar)
    return _with_advice(checkpoint, first.entry.family, first.naming, faults)


def _describe_sizes(naming: Naming, view: Checkpoint, published_config: Config) -> str:
    """Return in words the sizes that tensors have in the architecture of `published_config`, or an
    empty string if they cannot be read."""
    config = read_sizes(published_config, partial(leaf_shape, naming, view.tensors))
    return config.description if config is not None else ""


def describe_larger_network(
    checkpoint: Checkpoint, settings: Settings | None, best: Checkpoint
) -> str:
    """Return a sentence about a larger network of the zoo that the checkpoint nearly matches.

    It names the tensors that do not fit. `best` is the part of the checkpoint that fits a network
    exactly, such as the backbone of a detector. Return an empty string if no larger network nearly
    fits.
    """
    misfit = next(iter(find_nearest_misfits(checkpoint, settings, len(best.tensors))), None)
    if misfit is None or not 0 < NEAR_FIT_RATIO * misfit.total <= len(misfit.view.tensors):
        return ""
    advice = f" {parameter('take')} {best.prefix} reads that part alone." if best.prefix else ""
    return _with_advice(best, misfit.entry.family, misfit.naming, misfit.description) + advice


NEAR_FIT_RATIO = 10
"""A network nearly fits if at most one of this number of tensors does not."""


def _with_advice(checkpoint: Checkpoint, family: str, naming: Naming, description: str) -> str:
    """Return the sentence that a checkpoint holds no network of the zoo, with the most similar
    network and what to do.

    `description` says what does not fit, and `naming` is that of the similar network.
    """
    return (
        f"{checkpoint.path} holds no network of an architecture of the zoo. It is most like "
        f"{family}, in the names of {naming.name}, but for {description}. Give the checkpoint "
        "as its library saves it, or export the whole model with `converter.to_onnx`."
    )


def describe_storage(checkpoint: Checkpoint) -> str:
    """Return how a checkpoint stores its weights, if not as one floating-point tensor for each
    weight.

    The result is the end of a sentence. It also says how to save the weights so that they can be
    read. Examples are integers, factors of an adapter, and pruned weights beside their masks.
    Return an empty string for ordinary storage.
    """
    tensors = checkpoint.tensors
    integers = [
        key
        for key, tensor in tensors.items()
        if len(tensor.shape) > 1
        and tensor.dtype not in FLOATS
        and "weight" in key.rpartition(".")[2]
    ]
    if integers:
        return (
            f"holds layers in whole numbers ({join_names(integers[:1])} in "
            f"{tensors[integers[0]].dtype}), and nothing of the zoo says what they stand for: "
            f"save the network in floats, and make it smaller with {parameter('precision')}."
        )
    if factors := [key for key in tensors if FACTORS.search(key)]:
        return (
            f"holds factors of an adapter among its tensors ({join_names(factors[:1])}), and no "
            "tensor tells their scale: save what `merge_and_unload()` gives, or let peft's "
            "`save_pretrained` write a folder of the adapter, and name that with "
            f"{parameter('base')}."
        )
    for (first, second), words, advice in REPARAMETRIZATIONS:
        split = [key for key in tensors if _is_split(key, first, second, tensors)]
        if split:
            pair = join_names([split[0], split[0].removesuffix(first) + second])
            return f"holds {words} ({pair}): {advice}, {SAVE_AGAIN}."
    if parametrized := [key for key in tensors if PARAMETRIZED.search(key)]:
        return (
            f"holds weights that a parametrization computes ({join_names(parametrized[:1])}): call "
            "`torch.nn.utils.parametrize.remove_parametrizations` on each of these layers, "
            f"{SAVE_AGAIN}."
        )
    return ""


def _is_split(key: str, first: str, second: str, keys: Collection[str]) -> bool:
    """Return whether the tensor `key` is the first of two tensors that stand for one weight of a
    layer.

    Their names end in `first` and `second`, and both have to be in `keys`. The result is False for
    the last layer of self-supervised training. Its authors store it in two tensors, but it is not
    part of the network.
    """
    stem = key.removesuffix(first)
    is_weight = stem != key and stem.rpartition(".")[2] in ("weight", "bias")
    return is_weight and stem + second in keys and ".last_layer." not in f".{key}"


MAX_NEAREST = 3
"""Largest number of equally near networks that a message names."""


def find_nearest_misfits(
    checkpoint: Checkpoint, settings: Settings | None, min_tensors: int = 0
) -> list[Misfit]:
    """Return the published networks that differ in the fewest tensors from a part of a checkpoint,
    at most three.

    All of them differ in the same number of tensors, which may be 0. Only networks whose naming
    knows at least half of the names of the part are compared. Of several networks with the same
    differences one is returned. If a network of the model type in the settings is among the
    nearest, it is returned alone. The result is empty if no network is similar.

    **Arguments:**

    - `checkpoint`: the checkpoint, which may hold several networks.
    - `settings`: contents of its `config.json`, or None without one.
    - `min_tensors`: parts with at most this number of tensors are not compared.
    """
    parts = views_of(checkpoint)
    similar = [
        (entry, published, view)
        for entry in MODELS.values()
        for published in entry.readable_namings[:-1]
        for view in parts(published.naming)
        if len(view.tensors) > min_tensors and _knows_half(published.naming, view)
    ]
    compared = [
        Misfit(*match, reasons)
        for match in similar
        if (reasons := _compare_at_file_sizes(*match[1:], settings))
    ]
    # The networks of a family have the same tensor names, and building a large one takes time.
    first = {
        (entry.family, published.naming.name, view.prefix): (entry, published, view)
        for entry, published, view in reversed(similar)
    }
    compared_keys = {
        (misfit.entry.family, misfit.naming.name, misfit.view.prefix) for misfit in compared
    }
    remaining = [match for key, match in first.items() if key not in compared_keys]
    misfits = compared + [Misfit(*match, _compare_names(*match[1:])) for match in remaining]
    model_type = settings.model_type if settings else ""
    if not misfits:
        return []
    misfits.sort(key=lambda misfit: (misfit.total, misfit.entry.family != model_type))
    best = [misfit for misfit in misfits if misfit.total == misfits[0].total]
    if misfits[0].entry.family == model_type:
        return best[:1]
    distinct: dict[str, Misfit] = {}
    for misfit in best:
        distinct.setdefault(misfit.description, misfit)
    return [*distinct.values()][:MAX_NEAREST]


def _knows_half(naming: Naming, view: Checkpoint) -> bool:
    """Return whether a naming has at least half of the tensor names of a part. False if it has
    none."""
    count = sum(naming.has_key(key) for key in view.tensors)
    return count > 0 and 2 * count >= len(view.tensors)


def _compare_at_file_sizes(
    published: PublishedNaming, view: Checkpoint, settings: Settings | None
) -> Reasons | None:
    """Compare the tensors of a part with the network of a published architecture in the sizes of
    the part.

    **Returns** the names of the tensors that do not fit, by reason, or None if the sizes cannot be
    read.
    """
    naming, published_config = published.naming, published.config
    config = read_sizes(published_config, SiblingShapes(naming, view, published_config).find)
    facts = CheckpointFacts(naming.name, settings, bool(view.head))
    config = config and complete_config(config, facts)
    if config is not None and not config.is_sound:
        config = with_neutral_values(config)
    if config is None or not config.is_sound or not all(map(naming.has_leaf, model_shapes(config))):
        return None
    reasons = find_misfits(naming, plan_leaves(naming.rules, model_shapes(config)), view.tensors)
    return {
        **reasons,
        "missing": [*reasons["missing"], *_missing_weights(reasons["unexpected"], view)],
    }


def _missing_weights(biases: Sequence[str], view: Checkpoint) -> list[str]:
    """Return the names of the weights that a file lacks for layers whose bias it has.

    `biases` are the names of unexpected tensors in the file. Only those that end in `.bias` are
    used.
    """
    stems = (key.removesuffix(".bias") for key in biases if key.endswith(".bias"))
    return [f"{stem}.weight" for stem in stems if f"{stem}.weight" not in view.tensors]


def _compare_names(published: PublishedNaming, view: Checkpoint) -> Reasons:
    """Compare the tensor names of a part with those of a published network. Shapes and block
    numbers are not compared.

    **Returns** the names that the part lacks (`missing`) and the names that the network does not
    have (`unexpected`). Of missing names that differ in numbers only, one is returned.
    """
    naming, shapes = published.naming, model_shapes(published.config)
    named_shapes = {path: shape for path, shape in shapes.items() if naming.has_leaf(path)}
    plans = plan_leaves(naming.rules, named_shapes)
    reasons = find_misfits(naming, plans, view.tensors)
    present = {_without_numbers(key) for key in view.tensors}
    needed = {_without_numbers(key) for key in source_shapes(plans)}
    missing = {_without_numbers(key): key for key in reversed(reasons["missing"])}
    return {
        "missing": [key for name, key in missing.items() if name not in present],
        "unexpected": [key for key in reasons["unexpected"] if _without_numbers(key) not in needed],
    }


def _without_numbers(key: str) -> str:
    """Return the name of a tensor with every number replaced by 0, so that names in different
    blocks are equal."""
    return re.sub(r"\d+", "0", key)


class SiblingShapes:
    """Shapes of the leaves of a network in a file that lacks some of them, so that the sizes of the
    network can be read.

    A leaf that the file lacks gets the shape of the same leaf in another block. Learned positions
    that it lacks get the number of positions of the published network.

    **Arguments:** the naming of the part's tensors, the part itself, and the published
    configuration.
    """

    def __init__(self, naming: Naming, view: Checkpoint, published_config: Config):
        self.read_shape = partial(leaf_shape, naming, view.tensors)
        self.leaves = {naming.find_leaf(key) or "" for key in view.tensors}
        self.positions = find_positions(published_config)

    @cached_property
    def blocks(self) -> Mapping[str, Collection[str]]:
        """Numbers of the blocks in the file, by the path before the number, such as `blocks.`."""
        numbers: dict[str, dict[str, None]] = {}
        for leaf in self.leaves:
            for match in NUMBER.finditer(leaf):
                numbers.setdefault(leaf[: match.start() + 1], {})[match[1]] = None
        return numbers

    def find(self, leaf: str) -> Shape | None:
        """Return the shape of the leaf with this path, or None if it cannot be determined.

        It is the shape in the file, or else the shape of the same leaf in another block. Learned
        positions that the file lacks have the number of the published network and the width of the
        patch embedding, or width 0 if the file lacks that too.
        """
        if (shape := self.read_shape(leaf)) is not None:
            return shape
        if leaf.endswith(POSITIONS) and self.positions is not None:
            patch = self.read_shape(leaf.removesuffix(POSITIONS) + PATCHES) or (0,)
            return self.positions.patches + self.positions.prefix, patch[0]
        shapes = (self.read_shape(sibling) for sibling in self._siblings(leaf))
        return next((shape for shape in shapes if shape is not None), None)

    def _siblings(self, leaf: str) -> Iterator[str]:
        """Yield the paths of the same leaf in other blocks of the file.

        Those that differ in the last number of the path come first. Nothing is yielded if the file
        has no leaf at all of the leaf's own block.
        """
        numbers = [*NUMBER.finditer(leaf)]
        if numbers and numbers[-1][1] in self.blocks.get(leaf[: numbers[-1].start() + 1], ()):
            for match in reversed(numbers):
                prefix = leaf[: match.start() + 1]
                for number in self.blocks.get(prefix, ()):
                    yield f"{prefix}{number}{leaf[match.end() - 1 :]}"


def _describe_channels(naming: Naming, view: Checkpoint) -> str:
    """Return a sentence about the number of channels of the network's pictures, or an empty string
    if it is 3 or not known.

    A kernel of patches is [channels, 3, height, width], or [channels, 3 * side²] for a linear layer
    on the values of square patches.
    """
    for prefix in ("", "vision.", "backbone."):
        for leaf in (PATCHES, "blocks.0.downsample.conv.weight"):
            kernel = leaf_shape(naming, view.tensors, prefix + leaf) or ()
            if len(kernel) == 4 and kernel[1] != 3:
                channels = f"{kernel[1]} channel{'s' if kernel[1] != 1 else ''}"
                return (
                    f"it takes pictures of {channels}, and the zoo's networks take 3: export the "
                    "whole model with `converter.to_onnx`"
                )
            if len(kernel) == 2 and (side := math.isqrt(kernel[1] // 3)) ** 2 * 3 != kernel[1]:
                return (
                    f"its patches have {kernel[1]} values, and a square patch of {side} x {side} "
                    f"pixels in 3 channels has {3 * side**2}: export the whole model with "
                    "`converter.to_onnx`"
                )
    return ""


def _describe_grid(naming: Naming, view: Checkpoint) -> str:
    """Return a sentence about learned positions whose number is not a square, so that no tensor
    determines height and width of their grid.

    Return an empty string if the number is a square or there are no positions.
    """
    for prefix in ("", "vision.", "backbone."):
        table = leaf_shape(naming, view.tensors, prefix + POSITIONS)
        readable = (published for entry in MODELS.values() for published in entry.readable_namings)
        grids = (
            find_positions(published.config) for published in readable if published.naming == naming
        )
        patches = {table[0] - grid.prefix for grid in grids if table and grid is not None}
        if patches and all(count < 0 or math.isqrt(count) ** 2 != count for count in patches):
            return (
                f"its {min(patches)} positions are of no square grid, and no tensor tells of "
                'which: write {"image_size": [HEIGHT, WIDTH]} of the pictures of training into '
                f"{describe_settings_path(view.path)}"
            )
    return ""


def describe_settings_path(path: Path) -> str:
    """Return in words where to write a settings file for the checkpoint at `path`, and what to name
    on the command line then."""
    if path.is_dir():
        return f"{CONFIG} in {path}, and name that folder again"
    if LIBRARY_FILE_NAME.fullmatch(path.name):
        return f"a {CONFIG} beside {path.name}, and name the file again"
    return (
        f"a {CONFIG} beside {path.name}, in a folder without another checkpoint, and name the file "
        "again"
    )


def join_names(names: Sequence[str], max_length: int = 60) -> str:
    """Return names separated by commas. Only the first five are written out, each cut at
    `max_length` characters.

    The names come from a file that is not trusted, so that characters other than printable ASCII
    are escaped.
    """
    remainder = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(ascii(name)[1:-1][:max_length] for name in names[:5]) + remainder
