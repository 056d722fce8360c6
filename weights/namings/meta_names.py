"""Checkpoints as Meta publishes them: keys of facebookresearch's PyTorch models."""

from weights.mapping import Naming, Rule, same
from weights.namings import conventions
from weights.transforms import MASKED, PER_CHANNEL, UNBATCH

# Rules that the keys of most PyTorch vision transformers share: Meta's, Google's, timm's. They are
# those of timm's `VisionTransformer`, which the others were written after. A naming puts its own
# rules in front of these, since the first that matches a leaf decides.
PLAIN_VIT_RULES = (
    Rule("cls_token", ("cls_token",), UNBATCH),
    Rule("global_pos_embed.weight", ("pos_embed",), UNBATCH),
    Rule("patch_embed.proj.bias", ("patch_embed.proj.bias",), PER_CHANNEL),
    Rule("blocks.{i}.prenorm.{p}", ("blocks.{i}.norm1.{p}",)),
    Rule("blocks.{i}.norm.{p}", ("blocks.{i}.norm2.{p}",)),
    *same("blocks.{i}.attn.{layer}.{p}", "blocks.{i}.mlp.{layer}.{p}", "blocks.{i}.{scale}.gamma"),
    *same("patch_embed.proj.weight", "norm.{p}", "head.{p}"),
)

# The bias mask is a buffer that silences the keys' third of the bias: the model multiplies by it
# in every forward pass, so it belongs into the weights.
DINOV3_VIT = Naming(
    conventions.META,
    (
        Rule("reg_tokens", ("storage_tokens",), UNBATCH),
        Rule("local_pos_embed.periods", ("rope_embed.periods",)),
        Rule(
            "blocks.{i}.attn.qkv.bias",
            ("blocks.{i}.attn.qkv.bias", "blocks.{i}.attn.qkv.bias_mask"),
            MASKED,
        ),
        *same("mask_token", "local_cls_norm.{p}"),
        *PLAIN_VIT_RULES,
    ),
)

DINOV2_VIT = Naming(
    conventions.META,
    (
        Rule("reg_tokens", ("register_tokens",), UNBATCH),
        *same("mask_token"),
        *PLAIN_VIT_RULES,
    ),
)


def dtype(key: str) -> str:
    """The type that a tensor has in the published files."""
    return "bfloat16" if key.endswith("rope_embed.periods") else "float32"
