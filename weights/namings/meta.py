"""Checkpoints as Meta publishes them: keys of facebookresearch's PyTorch models."""

from weights.mapping import Naming, Rule
from weights.namings import plain
from weights.transforms import MASKED, UNBATCH

# The bias mask is a buffer that silences the keys' third of the bias: the model multiplies by it
# in every forward pass, so it belongs into the weights.
DINOV3_VIT = Naming(
    "meta",
    (
        Rule("reg_tokens", ("storage_tokens",), UNBATCH),
        Rule("mask_token", ("mask_token",)),
        Rule("local_pos_embed.periods", ("rope_embed.periods",)),
        Rule(
            "blocks.{i}.attn.qkv.bias",
            ("blocks.{i}.attn.qkv.bias", "blocks.{i}.attn.qkv.bias_mask"),
            MASKED,
        ),
        Rule("local_cls_norm.{p}", ("local_cls_norm.{p}",)),
        *plain.RULES,
    ),
)

DINOV2_VIT = Naming(
    "meta",
    (
        Rule("reg_tokens", ("register_tokens",), UNBATCH),
        Rule("mask_token", ("mask_token",)),
        *plain.RULES,
    ),
)


def dtype(key: str) -> str:
    """The type that a tensor has in the published files."""
    return "bfloat16" if key == "rope_embed.periods" else "float32"
