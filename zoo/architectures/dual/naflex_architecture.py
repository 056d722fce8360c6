"""Architecture records of SigLIP 2 NaFlex: the network for pictures, and the dual encoder."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import Architecture
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.config_settings import Template, TransformersClass
from zoo.architectures.dual.dual_architecture import SIGLIP_TEXT
from zoo.architectures.dual.naflex_config import NaFlexConfig, NaFlexDualConfig
from zoo.architectures.vit.vit_settings import TRANSFORMER

SETTINGS: Template = (
    *TRANSFORMER,
    *("hidden_act", "layer_norm_eps", "patch_size", "num_patches", "intermediate_size"),
    "vision_use_head",
)
"""Settings of transformers' class for pictures. It has the number of patches in place of the size
of a picture."""

VISION_CLASS = TransformersClass(
    "Siglip2VisionModel", "siglip2_vision_model", SETTINGS, antialias=True
)
BARE_CLASS = replace(VISION_CLASS, output_names=("last_hidden_state",))
TEXT_CLASS = replace(SIGLIP_TEXT, name="Siglip2TextModel", model_type="siglip2_text_model")


def _dual_settings(config: NaFlexDualConfig) -> dict[str, Any]:
    """Return transformers' settings of the dual encoder: one section for each of its networks."""
    words, vision = TEXT_CLASS.settings(config.words), VISION_CLASS.settings(config.vision)
    return {
        "text_config": {"model_type": TEXT_CLASS.model_type, **words},
        "vision_config": {"model_type": VISION_CLASS.model_type, **THREE_CHANNELS, **vision},
    }


DUAL_CLASS = TransformersClass("Siglip2Model", "siglip2", (_dual_settings,), antialias=True)


def _network_class() -> Callable[..., Any]:
    """Return the class of the network for pictures. Its module, and with it JAX, is imported only
    now."""
    from zoo.architectures.dual.naflex_network import NaFlexTransformer

    return NaFlexTransformer


def _dual_network_class() -> Callable[..., Any]:
    """Return the class of the dual encoder. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.dual.naflex_network import NaFlexDualEncoder

    return NaFlexDualEncoder


NAFLEX = Architecture(
    config=NaFlexConfig,
    network=_network_class,
    transformers_class=lambda config: VISION_CLASS if config.pooled else BARE_CLASS,
    transformers_classes=(VISION_CLASS, BARE_CLASS),
)

NAFLEX_DUAL = Architecture(
    config=NaFlexDualConfig,
    network=_dual_network_class,
    transformers_class=lambda config: DUAL_CLASS,
    transformers_classes=(DUAL_CLASS,),
)
