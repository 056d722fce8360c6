"""Whose names a checkpoint uses, and what model they speak of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass

from weights import equimo, huggingface, meta, timm
from weights.errors import NotACheckpoint
from weights.mapping import Naming
from weights.tensors import LazyTensor

NAMINGS: tuple[Naming, ...] = (
    meta.DINOV3_VIT,
    equimo.DINOV3_VIT,
    huggingface.DINOV3_VIT,
    timm.DINOV3_VIT,
)


def by_name(name: str) -> Naming:
    """The naming called `name`."""
    return next(naming for naming in NAMINGS if naming.name == name)


def recognise(file: Mapping[str, LazyTensor]) -> Naming:
    """The naming that knows most of a file's keys.

    **Raises** `NotACheckpoint` if none knows even half of them.
    """
    known = {naming.name: sum(naming.leaf(key) is not None for key in file) for naming in NAMINGS}
    best = max(NAMINGS, key=lambda naming: known[naming.name])
    if not file or 2 * known[best.name] < len(file):
        shown = ", ".join(ascii(key)[1:-1][:60] for key in list(file)[:3]) or "none at all"
        raise NotACheckpoint(
            f"the file's {len(file)} tensors ({shown} …) are not those of a model in the zoo: "
            "give a checkpoint of one."
        )
    return best


@dataclass(frozen=True)
class Architecture:
    """What tells one DINOv3 ViT checkpoint from another. None: the file does not say."""

    dim: int
    depth: int
    hidden: int
    ffn: str
    qkv_bias: bool | None
    untied_norms: bool | None

    def fits(self, other: Architecture) -> bool:
        """Whether they agree in everything that both know."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(a == b for a, b in pairs if a is not None and b is not None)


def architecture(naming: Naming, file: Mapping[str, LazyTensor]) -> Architecture | None:
    """The architecture that a file's keys speak of, or None if they are not a DINOv3 ViT's."""
    leaves = {naming.leaf(key): tensor.shape for key, tensor in file.items()}
    ffn, first = ("swiglu", "w1") if "blocks.0.mlp.w1.weight" in leaves else ("mlp", "fc1")
    hidden, token = leaves.get(f"blocks.0.mlp.{first}.weight"), leaves.get("cls_token")
    if not hidden or not token or not leaves.get("reg_tokens"):
        return None
    blocks = {found[1] for leaf in leaves if leaf and (found := re.match(r"blocks\.(\d+)\.", leaf))}
    says_all = naming.name in ("meta", "equimo")
    return Architecture(
        dim=token[-1],
        depth=len(blocks),
        hidden=hidden[0],
        ffn=ffn,
        qkv_bias="blocks.0.attn.qkv.bias" in leaves if naming.name == "meta" else None,
        untied_norms="local_cls_norm.weight" in leaves if says_all else None,
    )
