"""Write the settings of a network in the formats of transformers (5.23) and Equimo (1.1.0)."""

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from zoo.architectures.architecture import Config
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.config_settings import EQUIMO, TransformersClass, write_settings
from zoo.architectures.kinds import architecture_of, features_below
from zoo.common.errors import BadRequest

PROBLEMS = {"sigmoid": "multi_label_classification", "none": "regression"}
"""transformers' words for what makes answers of logits, where that is no softmax."""


def transformers_config(
    config: Config, names: Sequence[str], key_bias: bool, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """`config.json` of the class that computes a network. **Raises** `BadRequest`: there is none.

    `names` are those of the zoo's classes, `key_bias` is whether the keys have a bias, which
    only some classes ask, and `size` that of pictures, which those ask that take squares alone.
    """
    kind = transformers_kind(config)
    named = {"architectures": [kind.name], "model_type": kind.model_type, "dtype": "float32"}
    network = (THREE_CHANNELS if config.texts is None else {}) | kind.settings(config)
    settings = {kind.nested: network} if kind.nested else network
    settings = named | settings | labels(config.classes, names)
    if (problem := PROBLEMS.get(config.scores)) is not None:
        settings["problem_type"] = problem
    if kind.square:
        settings["image_size"] = max(size)
    return settings | ({"key_bias": key_bias} if kind.key_bias else {})


def portable_config(
    config: Config, names: Sequence[str], family: str, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """`config.json` beside an ONNX file: of transformers' class, or of its class for the features
    below a classifier, or at least with its words."""
    for network in (config, below(config)):
        with suppress(BadRequest):
            settings = transformers_config(network, names, key_bias=False, size=size)
            return settings | labels(config.classes, names)
    # Nobody has a class for it, but clients of ONNX files ask for little more than a name.
    return {
        "model_type": family,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "patch_size": config.stride,
        "num_channels": 3,
        **labels(config.classes, names),
    }


def below(config: Config) -> Config:
    """A network without what makes its features answers."""
    return features_below(config)


def labels(count: int, names: Sequence[str]) -> dict[str, Any]:
    """Names of the classes of a classifier: by number, where the names are of others."""
    if not count:
        return {}
    labelled = names if len(names) == count else [f"LABEL_{number}" for number in range(count)]
    return {
        "id2label": {str(number): name for number, name in enumerate(labelled)},
        "label2id": {name: number for number, name in enumerate(labelled)},
    }


def transformers_kind(config: Config) -> TransformersClass:
    """The class that computes a network. **Raises** `BadRequest` if there is none."""
    kind: TransformersClass = architecture_of(config).transformers(config)
    return kind


EQUIMO_VERSION = "1.1.0"  # the version whose format is written


def equimo_metadata(config: Config) -> dict[str, Any]:
    """`metadata.json` of an Equimo 1.x archive."""
    template = architecture_of(config).equimo
    assert template is not None, "Equimo has no others"
    return {
        "model_config": write_settings(config, template, EQUIMO),
        "torch_hub_cfg": {},
        "timm": [],
        "jax_version": version("jax"),
        "equinox_version": version("equinox"),
        "equimo_version": EQUIMO_VERSION,
    }
