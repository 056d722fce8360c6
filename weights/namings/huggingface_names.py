"""Checkpoints for Hugging Face transformers (5.23): keys of its files.

The models in memory use other names since transformers 5; it translates when it loads and saves.
"""

from weights.mapping import Naming, Rule, nested, same
from weights.transforms import (
    BIAS_THIRDS,
    FIRST_THIRD,
    LAST_THIRDS,
    PER_CHANNEL,
    THIRDS,
    UNBATCH,
    float32_periods,
    ones,
)


def dinov3_rules(layer: str, norm: str) -> tuple[Rule, ...]:
    """Rules for DINOv3, from what a block and the final norm are called. The keys have no bias in
    the published files. Neither the rotary periods nor the second final norm of training are there.
    """
    attention = f"{layer}attention."
    return (
        Rule("cls_token", ("embeddings.cls_token",), UNBATCH),
        Rule("reg_tokens", ("embeddings.register_tokens",), UNBATCH),
        Rule("mask_token", ("embeddings.mask_token",), UNBATCH),
        Rule("local_pos_embed.periods", (), missing=float32_periods),
        Rule("patch_embed.proj.weight", ("embeddings.patch_embeddings.weight",)),
        Rule("patch_embed.proj.bias", ("embeddings.patch_embeddings.bias",), PER_CHANNEL),
        Rule("blocks.{i}.prenorm.{p}", (f"{layer}norm1.{{p}}",)),
        Rule("blocks.{i}.norm.{p}", (f"{layer}norm2.{{p}}",)),
        Rule(
            "blocks.{i}.attn.qkv.weight",
            tuple(f"{attention}{part}_proj.weight" for part in "qkv"),
            THIRDS,
        ),
        Rule(
            "blocks.{i}.attn.qkv.bias",
            (f"{attention}q_proj.bias", f"{attention}k_proj.bias?", f"{attention}v_proj.bias"),
            BIAS_THIRDS,
        ),
        Rule("blocks.{i}.attn.proj.{p}", (f"{attention}o_proj.{{p}}",)),
        Rule("blocks.{i}.ls1.gamma", (f"{layer}layer_scale1.lambda1",)),
        Rule("blocks.{i}.ls2.gamma", (f"{layer}layer_scale2.lambda1",)),
        Rule("blocks.{i}.mlp.fc1.{p}", (f"{layer}mlp.up_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", (f"{layer}mlp.down_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.w1.{p}", (f"{layer}mlp.gate_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.w2.{p}", (f"{layer}mlp.up_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.w3.{p}", (f"{layer}mlp.down_proj.{{p}}",)),
        Rule("norm.{p}", (f"{norm}{{p}}",)),
        Rule("local_cls_norm.weight", (), missing=ones),
        Rule("local_cls_norm.bias", ()),
    )


# Files hold `layer.0.…`; the model in memory calls that `model.layer.0.…`.
DINOV3_VIT = Naming(
    "huggingface",
    dinov3_rules("layer.{i}.", "norm."),
    prefixes=tuple((f"model.{part}.", f"{part}.") for part in ("layer", "norm", "embeddings")),
    zero=tuple(f"layer.{{i}}.attention.{part}_proj.bias" for part in "qkv"),
)

LAYER = "encoder.layer.{i}."
SELF_ATTENTION = LAYER + "attention.attention."


def _projections(parts: tuple[str, ...]) -> tuple[Rule, ...]:
    """Queries, keys and values from three layers."""
    return tuple(
        Rule("blocks.{i}.attn.qkv." + leaf, tuple(f"{part}.{leaf}" for part in parts), THIRDS)
        for leaf in ("weight", "bias")
    )


# What `ViTModel` and its descendants `Dinov2Model` and `Dinov2WithRegistersModel` share.
_EMBEDDED = (
    Rule("cls_token", ("embeddings.cls_token",), UNBATCH),
    Rule("global_pos_embed.weight", ("embeddings.position_embeddings",), UNBATCH),
    Rule("patch_embed.proj.weight", ("embeddings.patch_embeddings.projection.weight",)),
    Rule("patch_embed.proj.bias", ("embeddings.patch_embeddings.projection.bias",), PER_CHANNEL),
    *_projections(tuple(SELF_ATTENTION + part for part in ("query", "key", "value"))),
    Rule("blocks.{i}.attn.proj.{p}", (LAYER + "attention.output.dense.{p}",)),
    Rule("norm.{p}", ("layernorm.{p}",)),
)

DINOV2_VIT = Naming(
    "huggingface",
    (
        *_EMBEDDED,
        Rule("reg_tokens", ("embeddings.register_tokens",), UNBATCH),
        Rule("mask_token", ("embeddings.mask_token",)),
        Rule("blocks.{i}.prenorm.{p}", (LAYER + "norm1.{p}",)),
        Rule("blocks.{i}.norm.{p}", (LAYER + "norm2.{p}",)),
        Rule("blocks.{i}.ls1.gamma", (LAYER + "layer_scale1.lambda1",)),
        Rule("blocks.{i}.ls2.gamma", (LAYER + "layer_scale2.lambda1",)),
        Rule("blocks.{i}.mlp.w12.{p}", (LAYER + "mlp.weights_in.{p}",)),
        Rule("blocks.{i}.mlp.w3.{p}", (LAYER + "mlp.weights_out.{p}",)),
        Rule("blocks.{i}.mlp.{layer}.{p}", (LAYER + "mlp.{layer}.{p}",)),
        Rule("head.{p}", ("classifier.{p}",)),
    ),
    prefixes=(("dinov2.", ""), ("dinov2_with_registers.", "")),
)

# A classifier has no use for the pooler, which some files carry nevertheless.
VIT = Naming(
    "huggingface",
    (
        *_EMBEDDED,
        Rule("blocks.{i}.prenorm.{p}", (LAYER + "layernorm_before.{p}",)),
        Rule("blocks.{i}.norm.{p}", (LAYER + "layernorm_after.{p}",)),
        Rule("blocks.{i}.mlp.fc1.{p}", (LAYER + "intermediate.dense.{p}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", (LAYER + "output.dense.{p}",)),
        Rule("head.{p}", ("classifier.{p}",)),
    ),
    prefixes=(("vit.", ""),),
    unused=("pooler.dense.{p}",),
)

SIGLIP_LAYER = "encoder.layers.{i}."

_SIGLIP_BLOCKS = (
    *_projections(tuple(SIGLIP_LAYER + f"self_attn.{part}_proj" for part in "qkv")),
    Rule("blocks.{i}.attn.proj.{p}", (SIGLIP_LAYER + "self_attn.out_proj.{p}",)),
    Rule("blocks.{i}.prenorm.{p}", (SIGLIP_LAYER + "layer_norm1.{p}",)),
    Rule("blocks.{i}.norm.{p}", (SIGLIP_LAYER + "layer_norm2.{p}",)),
    Rule("blocks.{i}.mlp.{layer}.{p}", (SIGLIP_LAYER + "mlp.{layer}.{p}",)),
)

# `SiglipVisionModel`, alone, in a `SiglipModel` beside the tower for texts, or under a classifier.
SIGLIP_VIT = Naming(
    "huggingface",
    (
        *_SIGLIP_BLOCKS,
        Rule("patch_embed.proj.weight", ("embeddings.patch_embedding.weight",)),
        Rule("patch_embed.proj.bias", ("embeddings.patch_embedding.bias",), PER_CHANNEL),
        Rule("global_pos_embed.weight", ("embeddings.position_embedding.weight",)),
        Rule("norm.{p}", ("post_layernorm.{p}",)),
        Rule("attn_pool.latent", ("head.probe",), UNBATCH),
        Rule("attn_pool.q.{p}", ("head.attention.in_proj_{p}",), FIRST_THIRD),
        Rule("attn_pool.kv.{p}", ("head.attention.in_proj_{p}",), LAST_THIRDS),
        Rule("attn_pool.proj.{p}", ("head.attention.out_proj.{p}",)),
        Rule("attn_pool.norm.{p}", ("head.layernorm.{p}",)),
        Rule("attn_pool.mlp.{layer}.{p}", ("head.mlp.{layer}.{p}",)),
        Rule("head.{p}", ("classifier.{p}",)),
    ),
    prefixes=(("vision_model.", ""),),
    unused=("logit_scale", "logit_bias", "text_model.**"),
)

# `SiglipTextModel`, alone or in a `SiglipModel`.
SIGLIP_TEXT = Naming(
    "huggingface",
    (
        *_SIGLIP_BLOCKS,
        Rule("token_embed.weight", ("embeddings.token_embedding.weight",)),
        Rule("pos_embed", ("embeddings.position_embedding.weight",)),
        Rule("norm.{p}", ("final_layer_norm.{p}",)),
        *same("head.{p}"),
    ),
    prefixes=(("text_model.", ""),),
    unused=("logit_scale", "logit_bias", "vision_model.**"),
)

# `SiglipModel`: both.
SIGLIP_DUAL = Naming(
    "huggingface",
    (
        *nested(SIGLIP_VIT.rules, "vision.", "vision_model."),
        *nested(SIGLIP_TEXT.rules, "words.", "text_model."),
        *same("logit_scale", "logit_bias"),
    ),
)
