"""DINOv3's vision transformers by Equimo and by transformers, at any size."""

import numpy as np

from tests.references import Arrays, running
from tests.references.dinov2 import by_equimo
from tests.references.running import Values
from weights.namings import huggingface_names
from zoo.architectures.architecture import Config

BIAS = "blocks.0.attn.qkv.bias"


def transformers(config: Config, values: Values):
    """Return transformers' model with the zoo's rotary periods. Its own are computed in float32."""
    import torch
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    settings = DINOv3ViTConfig(
        **running.common(config),
        intermediate_size=config.hidden,
        num_register_tokens=config.registers,
        use_gated_mlp=config.ffn == "swiglu",
        hidden_act="silu" if config.ffn == "swiglu" else "gelu",
        query_bias=config.qkv_bias,
        key_bias=config.qkv_bias and bool(values[BIAS][config.dim : 2 * config.dim].any()),
        value_bias=config.qkv_bias,
    )
    names = huggingface_names.DINOV3_VIT
    model = running.transformers_model(DINOv3ViTModel, settings, names, values)
    periods = torch.from_numpy(np.array(values["local_pos_embed.periods"]))
    model.rope_embeddings.inv_freq = 1 / periods
    return model


def by_transformers(config: Config, values: Values, image) -> Arrays:
    return running.run_transformers(transformers(config, values), image)


REFERENCES = running.both(
    by_equimo, by_transformers, dinov3_vits16="dinov3_vits16_pretrain_lvd1689m"
)
