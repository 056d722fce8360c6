"""Rules that the keys of most PyTorch vision transformers share: Meta's, Google's, timm's.

They are those of timm's `VisionTransformer`, which the others were written after. A naming puts its
own rules in front of these, since the first that matches a leaf decides.
"""

from weights.mapping import Rule
from weights.transforms import PER_CHANNEL, UNBATCH

RULES = (
    Rule("cls_token", ("cls_token",), UNBATCH),
    Rule("global_pos_embed.weight", ("pos_embed",), UNBATCH),
    Rule("patch_embed.proj.weight", ("patch_embed.proj.weight",)),
    Rule("patch_embed.proj.bias", ("patch_embed.proj.bias",), PER_CHANNEL),
    Rule("blocks.{i}.prenorm.{p}", ("blocks.{i}.norm1.{p}",)),
    Rule("blocks.{i}.norm.{p}", ("blocks.{i}.norm2.{p}",)),
    Rule("blocks.{i}.attn.{layer}.{p}", ("blocks.{i}.attn.{layer}.{p}",)),
    Rule("blocks.{i}.{scale}.gamma", ("blocks.{i}.{scale}.gamma",)),
    Rule("blocks.{i}.mlp.{layer}.{p}", ("blocks.{i}.mlp.{layer}.{p}",)),
    Rule("norm.{p}", ("norm.{p}",)),
    Rule("head.{p}", ("head.{p}",)),
)
