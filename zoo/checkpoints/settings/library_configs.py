"""Write the settings of a network in the formats of transformers (5.23) and Equimo (1.1.0)."""

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from zoo.architectures.architecture import Config
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.config_settings import EQUIMO, TransformersClass, write_settings
from zoo.architectures.kinds import architecture_of, without_head
from zoo.common.errors import BadRequest

PROBLEM_TYPES = {"sigmoid": "multi_label_classification", "none": "regression"}
"""Value of transformers' setting `problem_type` for scores other than a softmax."""


def transformers_config(
    config: Config, names: Sequence[str], key_bias: bool, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """Return the contents of `config.json` for the class of transformers that computes a network.

    **Raises** `BadRequest` if transformers has no such class.

    Arguments:
        config: the configuration of the network.
        names: names of its classes.
        key_bias: whether the attention keys have a bias. Only some classes have this setting.
        size: (height, width) of pictures. Only classes for square pictures have this setting.
    """
    transformers_class = find_transformers_class(config)
    identity = {
        "architectures": [transformers_class.name],
        "model_type": transformers_class.model_type,
        "dtype": "float32",
    }
    network = (THREE_CHANNELS if config.texts is None else {}) | transformers_class.settings(config)
    settings = {transformers_class.section: network} if transformers_class.section else network
    settings = identity | settings | label_settings(config.classes, names)
    if (problem := PROBLEM_TYPES.get(config.scores)) is not None:
        settings["problem_type"] = problem
    if transformers_class.square_only:
        settings["image_size"] = max(size)
    return settings | ({"key_bias": key_bias} if transformers_class.has_key_bias_setting else {})


def portable_config(
    config: Config, names: Sequence[str], family: str, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """Return the contents of `config.json` for a folder with an ONNX file.

    It describes the class of transformers for the network or, if there is none, the class for the
    network without its head. If transformers has neither, the result has only the settings that
    clients of ONNX files read.

    **Arguments:**

    - `config`: the configuration of the network.
    - `names`: names of its classes.
    - `family`: name of its family, which is its model type if transformers has no class.
    - `size`: (height, width) of pictures.
    """
    for network in (config, features_network(config)):
        with suppress(BadRequest):
            settings = transformers_config(network, names, key_bias=False, size=size)
            return settings | label_settings(config.classes, names)
    # Transformers has no class, but clients of ONNX files read little more than a name.
    return {
        "model_type": family,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "patch_size": config.stride,
        "num_channels": 3,
        **label_settings(config.classes, names),
    }


def features_network(config: Config) -> Config:
    """Return the configuration of the network without its head: the backbone, or the network
    without a classifier."""
    return without_head(config)


def label_settings(count: int, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings `id2label` and `label2id` with the names of `count` classes.

    If the number of names differs from `count`, classes are called by their numbers: `LABEL_0`. The
    result is empty if there are no classes.
    """
    if not count:
        return {}
    class_names = names if len(names) == count else [f"LABEL_{number}" for number in range(count)]
    return {
        "id2label": {str(number): name for number, name in enumerate(class_names)},
        "label2id": {name: number for number, name in enumerate(class_names)},
    }


def find_transformers_class(config: Config) -> TransformersClass:
    """Return the class of transformers that computes a network, with the settings that it needs.

    **Raises** `BadRequest` if there is none.
    """
    transformers_class: TransformersClass = architecture_of(config).transformers_class(config)
    return transformers_class


EQUIMO_VERSION = "1.1.0"
"""Version of Equimo whose format is written."""


def equimo_metadata(config: Config) -> dict[str, Any]:
    """Return the contents of `metadata.json` in an Equimo 1.x archive of a network."""
    template = architecture_of(config).equimo_settings
    assert template is not None, "Equimo has no network of this kind"
    return {
        "model_config": write_settings(config, template, EQUIMO),
        "torch_hub_cfg": {},
        "timm": [],
        "jax_version": version("jax"),
        "equinox_version": version("equinox"),
        "equimo_version": EQUIMO_VERSION,
    }
