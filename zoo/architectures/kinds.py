"""Architecture records of all kinds of networks, and functions on configurations of any kind."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from zoo.architectures.architecture import Architecture, CheckpointFacts, Config
from zoo.architectures.config_fields import (
    NetworkConfig,
    Shapes,
    absent_top_level_leaves,
    declared_fields,
    has_top_level_sizes,
    with_fields,
)
from zoo.architectures.convnext.convnext_architecture import CONVNEXT
from zoo.architectures.depth.depth_architecture import DEPTH
from zoo.architectures.detection.deim_architecture import DEIM
from zoo.architectures.detection.detection_architecture import DETECTION
from zoo.architectures.dual.dual_architecture import DUAL, TEXT
from zoo.architectures.dual.naflex_architecture import NAFLEX, NAFLEX_DUAL
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.segmentation.segmentation_architecture import MASKS, SEGMENTER
from zoo.architectures.swin.swin_architecture import SWIN
from zoo.architectures.vit.vit_architecture import VIT

ARCHITECTURES: tuple[Architecture[Any], ...] = (
    *(VIT, CONVNEXT, SWIN, TEXT, DUAL, NAFLEX, NAFLEX_DUAL),
    *(DEPTH, MASKS, DETECTION, DEIM, SEGMENTER),
)

_BY_CONFIG = {kind.config: kind for kind in ARCHITECTURES}

TOWER_NAMES = tuple(dict.fromkeys(name for kind in ARCHITECTURES for name in kind.config.towers))
"""transformers.js' names of nested networks that it loads from separate files."""

TIMM_WRAPPER = "timm_wrapper"
"""transformers' model type of networks of timm, whose tensors have timm's names."""

MODEL_TYPES = frozenset(
    (
        TIMM_WRAPPER,
        *(row.model_type for kind in ARCHITECTURES for row in kind.transformers_classes),
    )
)
"""Model types in `config.json` of networks whose tensors the zoo reads."""


def architecture_of(config: Config) -> Architecture[Any]:
    """Return the architecture record of the class of a configuration. **Raises** `KeyError` for a
    class that no record has; subclasses do not share a record."""
    return _BY_CONFIG[type(config)]


def nested_networks(config: Config) -> dict[str, Config]:
    """Return the configurations of the networks that a network contains directly, such as its
    backbone or its towers; empty if it contains none.

    The keys are the names of the configuration's fields, without a dot. The paths of a nested
    network's leaves begin with this name and a dot.
    """
    # A checkpoint is compared with thousands of configurations: descriptions of all fields would
    # take ten times as long.
    return {
        name: cast(Config, value)
        for name, value in vars(config).items()
        if isinstance(value, NetworkConfig)
    }


def innermost_networks(config: Config, path: str = "") -> Iterator[tuple[str, Config]]:
    """Yield pairs of a prefix and the configuration of an innermost network. The prefix, such as
    `"vision."`, is that of the paths of the network's leaves.

    A network without nested ones is yielded itself, with the prefix `path`. A network with nested
    ones is not yielded, so that a detector gives only its backbone.

    **Arguments:**

    - `path`: the prefix of the paths of the network's own leaves; empty for a complete model.
    """
    if inner := nested_networks(config):
        for name, part in inner.items():
            yield from innermost_networks(part, f"{path}{name}.")
    else:
        yield path, config


def _with_parts(config: Config, change: Callable[[Config], Config]) -> Config:
    """Return the configuration with each nested network replaced by `change(network)`."""
    inner = {name: change(part) for name, part in nested_networks(config).items()}
    return with_fields(config, **inner) if inner else config


def without_head(config: Config) -> Config:
    """Return the configuration of the network that computes the features: the backbone if there is
    one, or else the network without its classifier. A kind of network that cannot have a
    classifier, such as a dual encoder, is returned unchanged."""
    if (backbone := nested_networks(config).get("backbone")) is not None:
        return backbone
    head = architecture_of(config).head
    return config if head is None else head.with_classes(config, None)


def with_neutral_values(config: Config) -> Config:
    """Return the configuration, and nested networks, with the neutral value in all fields that are
    declared with `neutral`, such as one attention head.

    Such values fit the tensors of any network, so tensors can be read before the settings are
    known.
    """
    neutral = {
        field.name: field.facts.neutral
        for field in declared_fields(config)
        if field.facts is not None and field.facts.neutral is not None
    }
    return with_fields(_with_parts(config, with_neutral_values), **neutral)


def complete_config(config: Config, facts: CheckpointFacts) -> Config:
    """Return the configuration with the values that tensor shapes do not determine.

    They come from the settings file, or else are the defaults of the source library. Nested
    networks are completed first, as networks without a custom head. `facts.has_custom_head` applies
    to the outermost network.

    **Raises** `MappingError` for a setting that a field cannot have.
    """
    part_facts = replace(facts, has_custom_head=False)
    network = _with_parts(config, lambda part: complete_config(part, part_facts))
    return architecture_of(config).complete(network, facts)


def find_positions(config: Config) -> LearnedPositions | None:
    """Return the learned positions of the network for pictures. They may be in a nested network.
    None if there are none, for example with rotary positions."""
    values = (field.value for field in declared_fields(config))
    positions = next((value for value in values if isinstance(value, LearnedPositions)), None)
    inner = (find_positions(part) for part in nested_networks(config).values())
    return positions or next((positions for positions in inner if positions is not None), None)


def with_interpolation(config: Config, antialias: bool) -> Config:
    """Return the configuration with learned positions that are interpolated as in transformers.

    Their `offset` becomes 0, and their `antialias` becomes the argument `antialias`. This is done
    in nested networks too. A network without learned positions is returned unchanged.
    """
    positions = {
        field.name: with_fields(field.value, antialias=antialias, offset=0.0)
        for field in declared_fields(config)
        if isinstance(field.value, LearnedPositions)
    }
    parts = _with_parts(config, lambda part: with_interpolation(part, antialias))
    return with_fields(parts, **positions)


def find_unsupported_option(architecture: str) -> str:
    """Return an argument of timm's model class that no network of the zoo supports, such as
    `norm_layer`.

    `architecture` is the name of a timm architecture that uses the argument. The result is empty if
    there is none.
    """
    return next(
        filter(None, (kind.options.find_unsupported(architecture) for kind in ARCHITECTURES)), ""
    )


def with_options(config: Config, options: tuple[str, ...], shapes: Shapes) -> Config:
    """Return the configuration with optional features as they are in a checkpoint. Nested networks
    are not changed.

    **Arguments:**

    - `options`: names of a library's options, which are read in this order. Each is a key of
      `LibraryOptions.readers`; `KeyError` is raised for other names.
    - `shapes`: the shapes of the checkpoint's leaves.
    """
    read = architecture_of(config).options.readers
    for option in options:
        config = read[option](config, shapes)
    return config


def read_sizes(config: Config, shapes: Shapes) -> Config | None:
    """Return the configuration, and nested networks, with the sizes of a checkpoint.

    `shapes` returns the shapes of the checkpoint's leaves. Return None if the checkpoint lacks a
    leaf that determines a size, or if a size is out of bounds.
    """
    inner: dict[str, Config] = {}
    for name, part in nested_networks(config).items():
        if (sized := read_sizes(part, shapes_below(shapes, f"{name}."))) is None:
            return None
        inner[name] = sized
    config_with_parts = with_fields(config, **inner)
    return architecture_of(config).read_sizes(config_with_parts, shapes)


def shapes_below(shapes: Shapes, path: str) -> Shapes:
    """Return a function from a path in a nested network to the shape of that leaf; None if the
    checkpoint has no such leaf. The function calls `shapes` with `path`, such as `"backbone."`, in
    front of its argument."""
    return lambda leaf: shapes(f"{path}{leaf}")


def has_sizes(config: Config, shapes: Shapes) -> bool:
    """Return True if a checkpoint has the sizes of a network and of its nested networks.

    `shapes` returns the shapes of the checkpoint's leaves. Sizes that a function reads from several
    leaves are not compared. The check builds no network.
    """
    parts = nested_networks(config).items()
    return has_top_level_sizes(config, shapes) and all(
        has_sizes(part, shapes_below(shapes, f"{name}.")) for name, part in parts
    )


def absent_leaves(config: Config) -> set[str]:
    """Return the paths of optional leaves that a network and its nested networks do not have, such
    as a mask token."""
    leaves = absent_top_level_leaves(config)
    for name, part in nested_networks(config).items():
        leaves |= {f"{name}.{leaf}" for leaf in absent_leaves(part)}
    return leaves
