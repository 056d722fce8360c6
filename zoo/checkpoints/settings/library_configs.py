"""Write the settings of a network in the formats of transformers (5.23) and Equimo (1.1.0)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from zoo.architectures.architecture import Config
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.config_settings import EQUIMO, TransformersClass, write_settings
from zoo.architectures.kinds import architecture_of, without_head
from zoo.common.errors import BadRequest
from zoo.images.preprocessing import Filter, Preprocessing

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
    settings = {kind.section: network} if kind.section else network
    settings = named | settings | labels(config.classes, names)
    if (problem := PROBLEMS.get(config.scores)) is not None:
        settings["problem_type"] = problem
    if kind.square_only:
        settings["image_size"] = max(size)
    return settings | ({"key_bias": key_bias} if kind.has_key_bias_setting else {})


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
    return without_head(config)


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
    kind: TransformersClass = architecture_of(config).transformers_class(config)
    return kind


RESAMPLE: Mapping[Filter, int] = {"bilinear": 2, "bicubic": 3}
"""What Pillow calls the filters."""


def transformers_processor(how: Preprocessing) -> dict[str, Any]:
    """`preprocessor_config.json` of the image processor that works as `how` says."""
    size: dict[str, Any] = {"height": how.size[0], "width": how.size[1]}
    settings: dict[str, Any] = {
        "do_resize": True,
        "size": size,
        "resample": RESAMPLE[how.resample],
        "do_rescale": True,
        "rescale_factor": how.rescale,
        "do_normalize": True,
        "image_mean": list(how.mean),
        "image_std": list(how.std),
    }
    if how.rescale_first:
        return {"image_processor_type": "DINOv3ViTImageProcessorFast"} | settings
    if how.padded:
        edge = max(how.size)
        square = {"size": {"shortest_edge": edge, "longest_edge": edge}, "do_pad": True}
        return {"image_processor_type": "EomtImageProcessor"} | settings | square
    if how.multiple is not None:
        free = {"keep_aspect_ratio": True, "ensure_multiple_of": how.multiple}
        return {"image_processor_type": "DPTImageProcessor"} | settings | free
    if how.resize is None:
        return {"image_processor_type": "SiglipImageProcessor"} | settings
    cropped: dict[str, Any] = {"do_center_crop": True, "crop_size": size}
    if how.crop_rounding != "floor":
        cropped["crop_rounding"] = how.crop_rounding
    if isinstance(how.resize, tuple):
        stretched = {"size": {"height": how.resize[0], "width": how.resize[1]}}
        return {"image_processor_type": "DeiTImageProcessor"} | settings | cropped | stretched
    shorter = {"size": {"shortest_edge": how.resize}}
    return {"image_processor_type": "BitImageProcessor"} | settings | cropped | shorter


EQUIMO_VERSION = "1.1.0"  # the version whose format is written


def equimo_metadata(config: Config) -> dict[str, Any]:
    """`metadata.json` of an Equimo 1.x archive."""
    template = architecture_of(config).equimo_settings
    assert template is not None, "Equimo has no others"
    return {
        "model_config": write_settings(config, template, EQUIMO),
        "torch_hub_cfg": {},
        "timm": [],
        "jax_version": version("jax"),
        "equinox_version": version("equinox"),
        "equimo_version": EQUIMO_VERSION,
    }
