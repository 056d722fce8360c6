"""Names of tensors in files of Hugging Face transformers (5.23).

Since transformers 5, models in memory have other names. The library translates them when it loads
and saves.
"""

from dataclasses import replace

from weights.mapping import Naming, Rule, prefix_rules, same_names
from weights.namings import conventions
from weights.transforms import (
    BIAS_THIRDS,
    FIRST_THIRD,
    HALVES,
    LAST_THIRDS,
    PER_CHANNEL,
    THIRDS,
    UNBATCH,
    float32_periods,
    ones,
)


def dinov3_rules(layer: str, norm: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of transformers' DINOv3 to leaves of the model.

    In the published files the keys have no bias. The files contain neither the rotary periods nor
    the second final norm, which only training uses.

    **Arguments:**

    - `layer`: the prefix of a block's names in the file.
    - `norm`: the prefix of the final norm's names in the file.
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
        Rule("blocks.{i}.ls{n}.gamma", (f"{layer}layer_scale{{n}}.lambda1",)),
        Rule("blocks.{i}.mlp.fc1.{p}", (f"{layer}mlp.up_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", (f"{layer}mlp.down_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.w1.{p}", (f"{layer}mlp.gate_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.w2.{p}", (f"{layer}mlp.up_proj.{{p}}",)),
        Rule("blocks.{i}.mlp.w3.{p}", (f"{layer}mlp.down_proj.{{p}}",)),
        Rule("norm.{p}", (f"{norm}{{p}}",)),
        Rule("head.{p}", ("classifier.{p}",)),
        Rule("local_cls_norm.weight", (), missing=ones),
        Rule("local_cls_norm.bias", ()),
    )


def _dinov3_naming(layer: str, in_memory: Naming | None = None) -> Naming:
    """Return the naming of DINOv3 in transformers. `layer` is the prefix of a block, and
    `in_memory` the naming of the module in memory if it differs."""
    zero = tuple(f"{layer}attention.{part}_proj.bias" for part in "qkv")
    return Naming(conventions.HUGGINGFACE, dinov3_rules(layer, "norm."), zero, in_memory=in_memory)


DINOV3_VIT = _dinov3_naming("layer.{i}.", in_memory=_dinov3_naming("model.layer.{i}."))


def qkv_rules(parts: tuple[str, ...], attention: str = "blocks.{i}.attn") -> tuple[Rule, ...]:
    """Return the rules that join the tensors of separate layers for queries, keys and values to the
    leaves of one layer.

    **Arguments:**

    - `parts`: the names of the three layers in the file.
    - `attention`: the path of the attention in the model.
    """
    return tuple(
        Rule(f"{attention}.qkv.{leaf}", tuple(f"{part}.{leaf}" for part in parts), THIRDS)
        for leaf in ("weight", "bias")
    )


LAYER = "encoder.layer.{i}."
IN_FILES = (
    *(f"attention.attention.{part}" for part in ("query", "key", "value")),
    "attention.output.dense",
)
IN_MEMORY = tuple(f"attention.{part}_proj" for part in "qkvo")
"""Names, in files and in memory, of the layers for queries, keys and values and of the output layer
in a block of `ViTModel` and its descendants."""


def _shared_vit_rules(layer: str, attention: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules that `ViTModel` and its descendants `Dinov2Model` and
    `Dinov2WithRegistersModel` share.

    **Arguments:**

    - `layer`: the prefix of a block.
    - `attention`: the names, in a block, of the layers for queries, keys and values, and of the
      output layer.
    """
    *parts, last = (layer + part for part in attention)
    return (
        Rule("cls_token", ("embeddings.cls_token",), UNBATCH),
        Rule("global_pos_embed.weight", ("embeddings.position_embeddings",), UNBATCH),
        Rule("patch_embed.proj.weight", ("embeddings.patch_embeddings.projection.weight",)),
        Rule(
            "patch_embed.proj.bias", ("embeddings.patch_embeddings.projection.bias",), PER_CHANNEL
        ),
        *qkv_rules(tuple(parts)),
        Rule("blocks.{i}.attn.proj.{p}", (f"{last}.{{p}}",)),
        Rule("norm.{p}", ("layernorm.{p}",)),
        Rule("head.{p}", ("classifier.{p}",)),
    )


_WEIGHTS_IN = (Rule("blocks.{i}.mlp.w12.{p}", (LAYER + "mlp.weights_in.{p}",)),)
_GATED = (
    Rule(
        "blocks.{i}.mlp.w12.{p}",
        (LAYER + "mlp.gate_proj.{p}", LAYER + "mlp.up_proj.{p}"),
        HALVES,
    ),
)


def dinov2_rules(attention: tuple[str, ...], gate: tuple[Rule, ...], last: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of transformers' DINOv2 to leaves of the model.

    **Arguments:**

    - `attention`: the names, in a block, of the layers for queries, keys and values, and of the
      output layer.
    - `gate`: the rules of the first layer of a gated feed-forward network.
    - `last`: the name of the last layer of a gated feed-forward network.
    """
    return (
        *_shared_vit_rules(LAYER, attention),
        Rule("reg_tokens", ("embeddings.register_tokens",), UNBATCH),
        Rule("mask_token", ("embeddings.mask_token",)),
        Rule("blocks.{i}.prenorm.{p}", (LAYER + "norm1.{p}",)),
        Rule("blocks.{i}.norm.{p}", (LAYER + "norm2.{p}",)),
        Rule("blocks.{i}.ls{n}.gamma", (LAYER + "layer_scale{n}.lambda1",)),
        *gate,
        Rule("blocks.{i}.mlp.w3.{p}", (LAYER + f"mlp.{last}.{{p}}",)),
        Rule("blocks.{i}.mlp.{layer}.{p}", (LAYER + "mlp.{layer}.{p}",)),
    )


DINOV2_MODULES = ("dinov2", "dinov2_with_registers")

DINOV2_VIT = Naming(
    conventions.HUGGINGFACE,
    dinov2_rules(IN_FILES, _WEIGHTS_IN, "weights_out"),
    in_memory=Naming(
        conventions.HUGGINGFACE,
        dinov2_rules(IN_MEMORY, _GATED, "down_proj"),
        wrappers=DINOV2_MODULES,
    ),
    wrappers=DINOV2_MODULES,
)


def _vit_rules(layer: str, attention: tuple[str, ...], first: str, last: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of transformers' `ViTModel` to leaves of the model.

    **Arguments:**

    - `layer`: the prefix of a block's names.
    - `attention`: the names, in a block, of the layers for queries, keys and values, and of the
      output layer.
    - `first`, `last`: the names of the layers of the feed-forward network.
    """
    return (
        *_shared_vit_rules(layer, attention),
        Rule("blocks.{i}.prenorm.{p}", (layer + "layernorm_before.{p}",)),
        Rule("blocks.{i}.norm.{p}", (layer + "layernorm_after.{p}",)),
        Rule("blocks.{i}.mlp.fc1.{p}", (layer + first + ".{p}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", (layer + last + ".{p}",)),
    )


VIT_IN_MEMORY = _vit_rules("layers.{i}.", IN_MEMORY, "mlp.fc1", "mlp.fc2")

VIT = Naming(
    conventions.HUGGINGFACE,
    _vit_rules(LAYER, IN_FILES, "intermediate.dense", "output.dense"),
    in_memory=Naming(conventions.HUGGINGFACE, VIT_IN_MEMORY, wrappers=("vit",)),
    wrappers=("vit",),
)

DISTILLATION = Rule("reg_tokens", ("embeddings.distillation_token",), UNBATCH)

# `DeiTModel`: alone, or in a network with one classifier.
DISTILLED_VIT = Naming(
    conventions.HUGGINGFACE,
    (DISTILLATION, *VIT.rules),
    in_memory=Naming(conventions.HUGGINGFACE, (DISTILLATION, *VIT_IN_MEMORY), wrappers=("deit",)),
    wrappers=("deit",),
)

TWO_HEADS = (
    DISTILLATION,
    Rule("head.{p}", ("cls_classifier.{p}",)),
    Rule("head_dist.{p}", ("distillation_classifier.{p}",)),
)

# `DeiTForImageClassificationWithTeacher`.
TWO_HEADED_VIT = Naming(
    conventions.HUGGINGFACE,
    (*TWO_HEADS, *VIT.rules),
    in_memory=Naming(conventions.HUGGINGFACE, (*TWO_HEADS, *VIT_IN_MEMORY), wrappers=("deit",)),
    wrappers=("deit",),
)

SIGLIP_LAYER = "encoder.layers.{i}."

BLOCK_RULES = (
    *qkv_rules(tuple(SIGLIP_LAYER + f"self_attn.{part}_proj" for part in "qkv")),
    Rule("blocks.{i}.attn.proj.{p}", (SIGLIP_LAYER + "self_attn.out_proj.{p}",)),
    Rule("blocks.{i}.prenorm.{p}", (SIGLIP_LAYER + "layer_norm1.{p}",)),
    Rule("blocks.{i}.norm.{p}", (SIGLIP_LAYER + "layer_norm2.{p}",)),
    Rule("blocks.{i}.mlp.{layer}.{p}", (SIGLIP_LAYER + "mlp.{layer}.{p}",)),
)

# `SiglipVisionModel`: alone, in a `SiglipModel` with the text tower, or in a classifier.
SIGLIP_VIT = Naming(
    conventions.HUGGINGFACE,
    (
        *BLOCK_RULES,
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
    wrappers=("vision_model",),
)

TEXT_RULES = (
    *BLOCK_RULES,
    Rule("token_embed.weight", ("embeddings.token_embedding.weight",)),
    Rule("norm.{p}", ("final_layer_norm.{p}",)),
)
"""Rules that all text towers share."""

# `Siglip2VisionModel`, whose patch embedding is a linear layer of pixels, not a convolution.
SIGLIP2_VIT = replace(
    SIGLIP_VIT,
    rules=(
        Rule("patch_embed.proj.bias", ("embeddings.patch_embedding.bias",)),
        *(rule for rule in SIGLIP_VIT.rules if rule.target != "patch_embed.proj.bias"),
    ),
)

# `SiglipTextModel`, alone or in a `SiglipModel`.
SIGLIP_TEXT = Naming(
    conventions.HUGGINGFACE,
    (
        *TEXT_RULES,
        Rule("pos_embed", ("embeddings.position_embedding.weight",)),
        *same_names("head.{p}"),
    ),
)


def _siglip_dual(vision: Naming) -> Naming:
    """Return the naming of a checkpoint with both towers of SigLIP, from the naming of the tower
    for pictures."""
    return Naming(
        conventions.HUGGINGFACE,
        (
            *prefix_rules(vision.rules, "vision.", "vision_model."),
            *prefix_rules(SIGLIP_TEXT.rules, "words.", "text_model."),
            *same_names("logit_scale", "logit_bias"),
        ),
    )


# `SiglipModel` and `Siglip2Model`: both towers.
SIGLIP_DUAL, SIGLIP2_DUAL = _siglip_dual(SIGLIP_VIT), _siglip_dual(SIGLIP2_VIT)
