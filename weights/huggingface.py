"""Checkpoints for Hugging Face transformers: keys of its `DINOv3ViTModel`.

Files hold `layer.0.…`; the model in memory, since transformers 5, calls that `model.layer.0.…`.
The keys have no bias in the published files. Neither the rotary periods nor the second final
norm of training are there.
"""

from weights.mapping import Naming, Rule
from weights.transforms import BIAS_THIRDS, PER_CHANNEL, THIRDS, UNBATCH, float32_periods, ones

ATTENTION = "layer.{i}.attention."

DINOV3_VIT = Naming(
    "huggingface",
    (
        Rule("cls_token", ("embeddings.cls_token",), UNBATCH),
        Rule("reg_tokens", ("embeddings.register_tokens",), UNBATCH),
        Rule("mask_token", ("embeddings.mask_token",), UNBATCH),
        Rule("local_pos_embed.periods", (), missing=float32_periods),
        Rule("patch_embed.proj.weight", ("embeddings.patch_embeddings.weight",)),
        Rule("patch_embed.proj.bias", ("embeddings.patch_embeddings.bias",), PER_CHANNEL),
        Rule("blocks.{i}.prenorm.{p}", ("layer.{i}.norm1.{p}",)),
        Rule("blocks.{i}.norm.{p}", ("layer.{i}.norm2.{p}",)),
        Rule(
            "blocks.{i}.attn.qkv.weight",
            tuple(ATTENTION + f"{part}_proj.weight" for part in "qkv"),
            THIRDS,
        ),
        Rule(
            "blocks.{i}.attn.qkv.bias",
            (
                ATTENTION + "q_proj.bias",
                ATTENTION + "k_proj.bias?",
                ATTENTION + "v_proj.bias",
            ),
            BIAS_THIRDS,
        ),
        Rule("blocks.{i}.attn.proj.{p}", (ATTENTION + "o_proj.{p}",)),
        Rule("blocks.{i}.ls1.gamma", ("layer.{i}.layer_scale1.lambda1",)),
        Rule("blocks.{i}.ls2.gamma", ("layer.{i}.layer_scale2.lambda1",)),
        Rule("blocks.{i}.mlp.fc1.{p}", ("layer.{i}.mlp.up_proj.{p}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", ("layer.{i}.mlp.down_proj.{p}",)),
        Rule("blocks.{i}.mlp.w1.{p}", ("layer.{i}.mlp.gate_proj.{p}",)),
        Rule("blocks.{i}.mlp.w2.{p}", ("layer.{i}.mlp.up_proj.{p}",)),
        Rule("blocks.{i}.mlp.w3.{p}", ("layer.{i}.mlp.down_proj.{p}",)),
        Rule("norm.{p}", ("norm.{p}",)),
        Rule("local_cls_norm.weight", (), missing=ones),
        Rule("local_cls_norm.bias", ()),
    ),
    prefixes=(
        ("model.layer.", "layer."),
        ("model.norm.", "norm."),
        ("model.embeddings.", "embeddings."),
    ),
    zero=tuple(ATTENTION + f"{part}_proj.bias" for part in "qkv"),
)
