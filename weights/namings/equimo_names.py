"""Checkpoints as Equimo (1.1.0 and 2.7.0) publishes them: paths in its vision transformers."""

from weights.mapping import Naming, Rule, same
from weights.namings import conventions
from weights.transforms import BIAS

B = "blocks.0.blocks.{i}."

_RULES = (
    Rule("local_pos_embed.periods", ("local_pos_embed.patch_rope.freqs",)),
    Rule("local_pos_embed.freqs", ("local_pos_embed.patch_rope.freqs",)),
    Rule("local_pos_embed.reg_freqs", ("local_pos_embed.reg_rope.freqs",)),
    Rule("blocks.{i}.{part}.{p}", (B + "{part}.{p}",)),
    Rule("blocks.{i}.{part}.{layer}.{p}", (B + "{part}.{layer}.{p}",)),
    *same("patch_embed.proj.{p}", "global_pos_embed.weight", "cls_token", "reg_tokens"),
    *same("mask_token", "norm.{p}", "local_cls_norm.{p}", "head.{p}"),
)

VIT = Naming(conventions.EQUIMO, _RULES)

DINOV3_VIT = Naming(
    conventions.EQUIMO,
    (Rule("blocks.{i}.attn.qkv.bias", (B + "attn.qkv.bias",), BIAS), *_RULES),
    # Equimo 1.x gives the 7B model a bias here that the published file does not have.
    zero=(B + "attn.qkv.bias",),
)
