"""Names in Meta's files: the keys of facebookresearch's PyTorch models."""

from weights.mapping import Naming, Rule, same_names
from weights.namings import conventions
from weights.transforms import MASKED, PER_CHANNEL, UNBATCH

# Rules that most PyTorch vision transformers share: Meta's, Google's and timm's. The names are
# those of timm's `VisionTransformer`, on which the others are modelled. A naming puts its own rules
# before these, because the first rule that matches a leaf applies.
PLAIN_VIT_RULES = (
    Rule("cls_token", ("cls_token",), UNBATCH),
    Rule("global_pos_embed.weight", ("pos_embed",), UNBATCH),
    Rule("patch_embed.proj.bias", ("patch_embed.proj.bias",), PER_CHANNEL),
    Rule("blocks.{i}.prenorm.{p}", ("blocks.{i}.norm1.{p}",)),
    Rule("blocks.{i}.norm.{p}", ("blocks.{i}.norm2.{p}",)),
    *same_names(
        "blocks.{i}.attn.{layer}.{p}", "blocks.{i}.mlp.{layer}.{p}", "blocks.{i}.{scale}.gamma"
    ),
    *same_names("patch_embed.proj.weight", "norm.{p}", "head.{p}"),
)

# The bias mask is a buffer that is zero for the keys' third of the bias. Meta's model multiplies
# the bias by it in every forward pass, so the product is the bias of our model.
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
        *same_names("mask_token", "local_cls_norm.{p}"),
        *PLAIN_VIT_RULES,
    ),
)

DINOV2_VIT = Naming(
    conventions.META,
    (
        Rule("reg_tokens", ("register_tokens",), UNBATCH),
        *same_names("mask_token"),
        *PLAIN_VIT_RULES,
    ),
)


def published_dtype(key: str) -> str:
    """Return the dtype of the tensor with this key in Meta's files: bfloat16 for rotary periods,
    otherwise float32."""
    return "bfloat16" if key.endswith("rope_embed.periods") else "float32"
