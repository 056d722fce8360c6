"""Checkpoints as Meta publishes them: keys of facebookresearch's PyTorch models."""

from collections.abc import Mapping
from dataclasses import dataclass

from weights.mapping import MASKED, PER_CHANNEL, UNBATCH, Rule
from weights.tensors import LazyTensor

# The bias mask is a buffer that silences the keys' third of the bias: the model multiplies by it
# in every forward pass, so it belongs into the weights.
DINOV3_VIT: tuple[Rule, ...] = (
    Rule("cls_token", ("cls_token",), UNBATCH),
    Rule("reg_tokens", ("storage_tokens",), UNBATCH),
    Rule("mask_token", ("mask_token",)),
    Rule("local_pos_embed.periods", ("rope_embed.periods",)),
    Rule("patch_embed.proj.weight", ("patch_embed.proj.weight",)),
    Rule("patch_embed.proj.bias", ("patch_embed.proj.bias",), PER_CHANNEL),
    Rule("blocks.{i}.prenorm.{p}", ("blocks.{i}.norm1.{p}",)),
    Rule("blocks.{i}.norm.{p}", ("blocks.{i}.norm2.{p}",)),
    Rule(
        "blocks.{i}.attn.qkv.bias",
        ("blocks.{i}.attn.qkv.bias", "blocks.{i}.attn.qkv.bias_mask"),
        MASKED,
    ),
    Rule("blocks.{i}.attn.{layer}.{p}", ("blocks.{i}.attn.{layer}.{p}",)),
    Rule("blocks.{i}.{scale}.gamma", ("blocks.{i}.{scale}.gamma",)),
    Rule("blocks.{i}.mlp.{layer}.{p}", ("blocks.{i}.mlp.{layer}.{p}",)),
    Rule("norm.{p}", ("norm.{p}",)),
    Rule("local_cls_norm.{p}", ("local_cls_norm.{p}",)),
)


@dataclass(frozen=True)
class Architecture:
    """What tells one DINOv3 ViT checkpoint from another."""

    dim: int
    depth: int
    hidden: int
    ffn: str
    qkv_bias: bool
    untied_norms: bool


def architecture(file: Mapping[str, LazyTensor]) -> Architecture | None:
    """The architecture that a file's keys speak of, or None if they are not a DINOv3 ViT's."""
    ffn, first = ("swiglu", "w1") if "blocks.0.mlp.w1.weight" in file else ("mlp", "fc1")
    hidden = file.get(f"blocks.0.mlp.{first}.weight")
    cls_token = file.get("cls_token")
    if hidden is None or cls_token is None or "rope_embed.periods" not in file:
        return None
    if not hidden.shape or not cls_token.shape:
        return None
    return Architecture(
        dim=cls_token.shape[-1],
        depth=sum(key.endswith(".attn.qkv.weight") for key in file),
        hidden=hidden.shape[0],
        ffn=ffn,
        qkv_bias="blocks.0.attn.qkv.bias" in file,
        untied_norms="local_cls_norm.weight" in file,
    )
