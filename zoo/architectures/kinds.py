"""Records of all kinds of networks, and functions on configurations of any kind."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from zoo.architectures.architecture import Architecture, CheckpointFacts, Config
from zoo.architectures.config_fields import (
    NetworkConfig,
    Shapes,
    absent_own_leaves,
    declared_fields,
    has_own_sizes,
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

_OF = {each.config: each for each in ARCHITECTURES}

TOWER_NAMES = tuple(dict.fromkeys(name for each in ARCHITECTURES for name in each.config.towers))
"""What transformers.js calls the parts of networks whose files it asks for one by one."""

TIMM_WRAPPER = "timm_wrapper"
"""What transformers calls a network of timm's, whose tensors have timm's names."""

MODEL_TYPES = frozenset(
    (TIMM_WRAPPER, *(made.model_type for each in ARCHITECTURES for made in each.classes))
)
"""What `config.json` calls a network whose tensors the zoo reads."""


def architecture_of(config: Config) -> Architecture[Any]:
    """The kind of network that a configuration is of."""
    return _OF[type(config)]


def parts_of_network(config: Config) -> dict[str, Config]:
    """The networks that one consists of, by where their leaves lie."""
    return {
        each.name: cast(Config, each.value)
        for each in declared_fields(config)
        if isinstance(each.value, NetworkConfig)
    }


def towers(config: Config, path: str = "") -> Iterator[tuple[str, Config]]:
    """The innermost networks, its parts or itself, and what paths of their leaves begin with."""
    if inner := parts_of_network(config):
        for name, part in inner.items():
            yield from towers(part, f"{path}{name}.")
    else:
        yield path, config


def _with_parts(config: Config, change: Callable[[Config], Config]) -> Config:
    """A network whose parts were changed."""
    inner = {name: change(part) for name, part in parts_of_network(config).items()}
    return with_fields(config, **inner) if inner else config


def features_below(config: Config) -> Config:
    """Return the network without what makes answers of its features: the backbone of one that has
    one, or the network without a classifier."""
    if (backbone := parts_of_network(config).get("backbone")) is not None:
        return backbone
    head = architecture_of(config).head
    return config if head is None else head.with_classes(config, None)


def with_one_head(config: Config) -> Config:
    """Return a network of the same tensors that any number of channels suits."""
    neutral = {
        each.name: each.facts.neutral
        for each in declared_fields(config)
        if each.facts is not None and each.facts.neutral is not None
    }
    return with_fields(_with_parts(config, with_one_head), **neutral)


def complete_config(config: Config, beside: CheckpointFacts) -> Config:
    """Return the configuration with the values that tensor shapes do not determine. They come from
    the settings file, or else are the defaults of the source library. A custom head uses the
    network's own pooling."""
    inside = replace(beside, own_head=False)
    network = _with_parts(config, lambda part: complete_config(part, inside))
    return architecture_of(config).complete(network, beside)


def positions_in(config: Config) -> LearnedPositions | None:
    """Return the learned positions of a network for pictures, its own or those of a part."""
    own = (each.value for each in declared_fields(config))
    where = next((value for value in own if isinstance(value, LearnedPositions)), None)
    inner = (positions_in(part) for part in parts_of_network(config).values())
    return where or next((where for where in inner if where is not None), None)


def interpolated(config: Config, antialias: bool) -> Config:
    """Return the configuration with positions that are brought to another size as transformers
    does it."""
    positions = {
        each.name: with_fields(each.value, antialias=antialias, offset=0.0)
        for each in declared_fields(config)
        if isinstance(each.value, LearnedPositions)
    }
    parts = _with_parts(config, lambda part: interpolated(part, antialias))
    return with_fields(parts, **positions)


def refused_option(architecture: str) -> str:
    """Return the option of timm's architecture with this name that no network of the zoo has; empty
    where there is none."""
    return next(filter(None, (kind.options.refused(architecture) for kind in ARCHITECTURES)), "")


def with_options(config: Config, options: tuple[str, ...], shapes: Shapes) -> Config:
    """Return a network of the same architecture with those of a library's options that a checkpoint
    has."""
    read = architecture_of(config).options.readers
    for option in options:
        config = read[option](config, shapes)
    return config


def read_sizes(config: Config, shapes: Shapes) -> Config | None:
    """A network of the same architecture in the sizes that a checkpoint has; None where it has not
    all that tells them."""
    inner: dict[str, Config] = {}
    for name, part in parts_of_network(config).items():
        if (sized := read_sizes(part, shapes_below(shapes, f"{name}."))) is None:
            return None
        inner[name] = sized
    whole = with_fields(config, **inner)
    return architecture_of(config).sizes(whole, shapes)


def shapes_below(shapes: Shapes, path: str) -> Shapes:
    """Return the shapes of leaves by what comes after `path` in theirs."""
    return lambda leaf: shapes(f"{path}{leaf}")


def has_sizes(config: Config, shapes: Shapes) -> bool:
    """Return whether a checkpoint has the leaves of a network's sizes, as far as can be told before
    the network is built."""
    parts = parts_of_network(config).items()
    return has_own_sizes(config, shapes) and all(
        has_sizes(part, shapes_below(shapes, f"{name}.")) for name, part in parts
    )


def absent_leaves(config: Config) -> set[str]:
    """Return the paths of optional leaves that a network does not have, such as a mask token."""
    leaves = absent_own_leaves(config)
    for name, part in parts_of_network(config).items():
        leaves |= {f"{name}.{leaf}" for leaf in absent_leaves(part)}
    return leaves
