"""Records of all kinds of networks, and functions on configurations of any kind."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

from weights.initializers import Shape
from zoo.architectures.architecture import Architecture, CheckpointFacts, Config, Shapes
from zoo.architectures.convnext.convnext_architecture import CONVNEXT
from zoo.architectures.depth.depth_architecture import DEPTH
from zoo.architectures.detection.deim_architecture import DEIM
from zoo.architectures.detection.detection_architecture import DETECTION
from zoo.architectures.dual.dual_architecture import DUAL, TEXT
from zoo.architectures.segmentation.segmentation_architecture import MASKS, SEGMENTER
from zoo.architectures.swin.swin_architecture import SWIN
from zoo.architectures.vit.vit_architecture import VIT

ARCHITECTURES: tuple[Architecture[Any], ...] = (
    *(VIT, CONVNEXT, SWIN, TEXT, DUAL),
    *(DEPTH, MASKS, DETECTION, DEIM, SEGMENTER),
)

_OF = {each.config: each for each in ARCHITECTURES}

TOWER_NAMES = tuple(dict.fromkeys(name for each in ARCHITECTURES for name in each.towers))
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


def with_fields(config: Config, **fields: object) -> Config:
    """A configuration with other values of fields that those of its kind have."""
    changed: Config = replace(cast(Any, config), **fields)
    return changed


def parts_of_network(config: Config) -> dict[str, Config]:
    """The networks that one consists of, by where their leaves lie."""
    return {name: getattr(config, name) for name in architecture_of(config).parts}


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


def body(config: Config) -> Config:
    """A network without what somebody's own may have otherwise: classes, grid, details."""
    return architecture_of(config).free(_with_parts(config, body))


def unsized(config: Config) -> Config:
    """The same without its sizes."""
    kind = architecture_of(config)
    return kind.unsized(kind.free(_with_parts(config, unsized)))


def with_one_head(config: Config) -> Config:
    """A network of the same tensors that any number of channels suits."""
    if architecture_of(config).heads:
        return with_fields(config, heads=1)
    return _with_parts(config, with_one_head)


def settled(config: Config, beside: CheckpointFacts) -> Config:
    """Configuration with what no tensor tells: from the settings beside them, or what their library
    does; a head of somebody's own takes what the network pools."""
    inside = replace(beside, own_head=False)
    whole = _with_parts(config, lambda part: settled(part, inside))
    return architecture_of(config).settled(whole, beside)


def interpolated(config: Config, antialias: bool) -> Config:
    """Configuration with positions that are brought to another size as transformers does it."""
    whole = _with_parts(config, lambda part: interpolated(part, antialias))
    return architecture_of(config).interpolated(whole, antialias)


def refused_option(architecture: str) -> str:
    """Return the option of timm's architecture with this name that no network of the zoo has; empty
    where there is none."""
    return next(filter(None, (kind.refused_option(architecture) for kind in ARCHITECTURES)), "")


def with_options(config: Config, options: tuple[str, ...], shapes: Shapes) -> Config:
    """Return a network of the same architecture with those of a library's options that a checkpoint
    has."""
    read = architecture_of(config).options
    for option in options:
        config = read[option](config, shapes)
    return config


def read_sizes(config: Config, shapes: Shapes) -> Config | None:
    """A network of the same architecture in the sizes that a checkpoint has; None where it has not
    all that tells them. Heads are kept where no leaf tells how many there are."""
    inner: dict[str, Config] = {}
    for name, part in parts_of_network(config).items():
        if (sized := read_sizes(part, partial(_inside, shapes, name))) is None:
            return None
        inner[name] = sized
    whole = with_fields(config, **inner)
    return architecture_of(config).sizes(whole, shapes)


def _inside(shapes: Shapes, part: str, leaf: str) -> Shape | None:
    """The shape of a leaf of a part."""
    return shapes(f"{part}.{leaf}")


def landmarks(config: Config) -> dict[str, Shape]:
    """Leaves that tell most networks apart, before one has to be built."""
    leaves = dict(architecture_of(config).landmarks(config))
    for name, part in parts_of_network(config).items():
        leaves |= {f"{name}.{leaf}": shape for leaf, shape in landmarks(part).items()}
    return leaves
