"""Checkpoints for timm: keys of its `Eva` with DINOv3's settings (timm 1.0.31).

Some variants have a query and a value bias (`…_qkvb`), the others none; keys never have one.
Periods, mask token and the second final norm of training are not there.
"""

from weights.mapping import Naming, Rule
from weights.transforms import BIAS_OUTER_THIRDS, PER_CHANNEL, UNBATCH, float32_periods, ones

DINOV3_VIT = Naming(
    "timm",
    (
        Rule("cls_token", ("cls_token",), UNBATCH),
        Rule("reg_tokens", ("reg_token",), UNBATCH),
        Rule("mask_token", ()),
        Rule("local_pos_embed.periods", (), missing=float32_periods),
        Rule("patch_embed.proj.weight", ("patch_embed.proj.weight",)),
        Rule("patch_embed.proj.bias", ("patch_embed.proj.bias",), PER_CHANNEL),
        Rule("blocks.{i}.prenorm.{p}", ("blocks.{i}.norm1.{p}",)),
        Rule("blocks.{i}.norm.{p}", ("blocks.{i}.norm2.{p}",)),
        Rule(
            "blocks.{i}.attn.qkv.bias",
            ("blocks.{i}.attn.q_bias?", "blocks.{i}.attn.v_bias?"),
            BIAS_OUTER_THIRDS,
        ),
        Rule("blocks.{i}.attn.{layer}.{p}", ("blocks.{i}.attn.{layer}.{p}",)),
        Rule("blocks.{i}.ls1.gamma", ("blocks.{i}.gamma_1",)),
        Rule("blocks.{i}.ls2.gamma", ("blocks.{i}.gamma_2",)),
        Rule("blocks.{i}.mlp.fc1.{p}", ("blocks.{i}.mlp.fc1.{p}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", ("blocks.{i}.mlp.fc2.{p}",)),
        Rule("blocks.{i}.mlp.w1.{p}", ("blocks.{i}.mlp.fc1_g.{p}",)),
        Rule("blocks.{i}.mlp.w2.{p}", ("blocks.{i}.mlp.fc1_x.{p}",)),
        Rule("blocks.{i}.mlp.w3.{p}", ("blocks.{i}.mlp.fc2.{p}",)),
        Rule("norm.{p}", ("norm.{p}",)),
        Rule("local_cls_norm.weight", (), missing=ones),
        Rule("local_cls_norm.bias", ()),
    ),
)
