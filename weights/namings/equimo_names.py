"""Names in files of Equimo (1.1.0 and 2.7.0): the paths in its vision transformers."""

from weights.mapping import Naming, Rule, same_names
from weights.namings import conventions
from weights.transforms import BIAS

BLOCK_PREFIX = "blocks.0.blocks.{i}."

_RULES = (
    Rule("local_pos_embed.periods", ("local_pos_embed.patch_rope.freqs",)),
    Rule("local_pos_embed.freqs", ("local_pos_embed.patch_rope.freqs",)),
    Rule("local_pos_embed.reg_freqs", ("local_pos_embed.reg_rope.freqs",)),
    Rule("blocks.{i}.{part}.{p}", (BLOCK_PREFIX + "{part}.{p}",)),
    Rule("blocks.{i}.{part}.{layer}.{p}", (BLOCK_PREFIX + "{part}.{layer}.{p}",)),
    *same_names("patch_embed.proj.{p}", "global_pos_embed.weight", "cls_token", "reg_tokens"),
    *same_names("mask_token", "norm.{p}", "local_cls_norm.{p}", "head.{p}"),
)

VIT = Naming(conventions.EQUIMO, _RULES)

DINOV3_VIT = Naming(
    conventions.EQUIMO,
    (Rule("blocks.{i}.attn.qkv.bias", (BLOCK_PREFIX + "attn.qkv.bias",), BIAS), *_RULES),
    # Equimo 1.x requires this bias in the 7B model, although the published file does not have it.
    zero=(BLOCK_PREFIX + "attn.qkv.bias",),
)
