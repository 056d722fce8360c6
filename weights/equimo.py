"""Equimo's checkpoints: paths in its trees, and the order of their leaves in a file.

A file's records have no names, and nothing but their order tells one from another, so the order is
a table here. A shape is written in letters that mean the same number throughout a file.

Source: field order of `equimo.models.vit.VisionTransformer` and its layers (1.1.0 and 2.7.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from weights.distributions import Shape
from weights.errors import NotACheckpoint
from weights.mapping import Naming, Rule
from weights.transforms import BIAS

Row = tuple[str, str]

# The leaves of dropout are numbers and not arrays; an empty shape stands for those.
BLOCK_PREFIX = "blocks.0.blocks.{i}."

HEAD: tuple[Row, ...] = (
    ("patch_embed.proj.weight", "D 3 P P"),
    ("patch_embed.proj.bias", "D 1 1"),
)
ROTARY: tuple[Row, ...] = (("local_pos_embed.patch_rope.freqs", "F"),)
LEARNED: tuple[Row, ...] = (("global_pos_embed.weight", "N D"),)
CLASS: tuple[Row, ...] = (("cls_token", "1 D"),)
REGISTERS: tuple[Row, ...] = (("reg_tokens", "R D"),)
MASK: tuple[Row, ...] = (("mask_token", "1 D"),)

NORMS: tuple[Row, ...] = (
    ("prenorm.weight", "D"),
    ("prenorm.bias", "D"),
    ("norm.weight", "D"),
    ("norm.bias", "D"),
)
SCALES: tuple[Row, ...] = (("ls1.gamma", "D"), ("ls2.gamma", "D"))
QKV: tuple[Row, ...] = (("attn.qkv.weight", "Q D"),)
QKV_BIAS: tuple[Row, ...] = (("attn.qkv.bias", "Q"),)
PROJ: tuple[Row, ...] = (
    ("attn.proj.weight", "D D"),
    ("attn.proj.bias", "D"),
    ("attn.attn_drop.p", ""),
    ("attn.attn_drop.inference", ""),
    ("attn.proj_drop.p", ""),
    ("attn.proj_drop.inference", ""),
)
MLP: tuple[Row, ...] = (
    ("mlp.fc1.weight", "H D"),
    ("mlp.fc1.bias", "H"),
    ("mlp.fc2.weight", "D H"),
    ("mlp.fc2.bias", "D"),
)
SWIGLU: tuple[Row, ...] = (
    ("mlp.w1.weight", "H D"),
    ("mlp.w1.bias", "H"),
    ("mlp.w2.weight", "H D"),
    ("mlp.w2.bias", "H"),
    ("mlp.w3.weight", "D H"),
    ("mlp.w3.bias", "D"),
)
DROPS: tuple[Row, ...] = (
    ("mlp.drop1.p", ""),
    ("mlp.drop1.inference", ""),
    ("mlp.drop2.p", ""),
    ("mlp.drop2.inference", ""),
    ("drop_path1.p", ""),
    ("drop_path1.inference", ""),
    ("drop_path2.p", ""),
    ("drop_path2.inference", ""),
)
TAIL: tuple[Row, ...] = (
    ("pos_drop.p", ""),
    ("pos_drop.inference", ""),
    ("norm.weight", "D"),
    ("norm.bias", "D"),
)
LOCAL_NORM: tuple[Row, ...] = (("local_cls_norm.weight", "D"), ("local_cls_norm.bias", "D"))

# Parts of a file in their order, each with what may stand there; the parts from `NORMS` to `DROPS`
# are a block and come once a layer.
BEFORE: tuple[tuple[tuple[Row, ...], ...], ...] = (
    (HEAD,),
    (ROTARY, LEARNED),
    (CLASS,),
    (REGISTERS, ()),
    (MASK, ()),
)
BLOCK: tuple[tuple[tuple[Row, ...], ...], ...] = (
    (NORMS,),
    (SCALES, ()),
    (QKV,),
    (QKV_BIAS, ()),
    (PROJ,),
    (MLP, SWIGLU),
    (DROPS,),
)
AFTER: tuple[tuple[tuple[Row, ...], ...], ...] = ((TAIL,), (LOCAL_NORM, ()))

BLOCK_START = len(BEFORE)
BLOCK_END = len(BEFORE) + len(BLOCK)


@dataclass(frozen=True)
class Layout:
    """One choice among what may stand in a file, for a number of layers."""

    choice: tuple[tuple[Row, ...], ...]
    depth: int

    def rows(self) -> Iterator[Row]:
        """Path and shape of every record, scalars included."""
        before, block, after = (
            [row for part in self.choice[start:end] for row in part]
            for start, end in ((0, BLOCK_START), (BLOCK_START, BLOCK_END), (BLOCK_END, None))
        )
        yield from before
        for i in range(self.depth):
            prefix = BLOCK_PREFIX.format(i=i)
            yield from ((prefix + name, shape) for name, shape in block)
        yield from after


def layouts(arrays: int) -> Iterator[Layout]:
    """Every layout with that many arrays, scalars not counted."""
    for choice in product(*BEFORE, *BLOCK, *AFTER):
        counts = [sum(bool(shape) for _, shape in part) for part in choice]
        block = sum(counts[BLOCK_START:BLOCK_END])
        depth, rest = divmod(arrays - sum(counts) + block, block)
        if depth > 0 and not rest:
            yield Layout(choice, depth)


def record_names(shapes: Sequence[Shape]) -> list[str]:
    """The path of each array in a file, from the arrays' shapes in their order.

    **Raises** `NotACheckpoint` if no layout has them.
    """
    for layout in layouts(len(shapes)):
        rows = [(name, shape) for name, shape in layout.rows() if shape]
        if _unify([shape for _, shape in rows], shapes):
            return [name for name, _ in rows]
    raise NotACheckpoint(
        f"the {len(shapes)} arrays of the Equimo checkpoint are in no known order of a vision "
        "transformer: give the archive of one."
    )


def _unify(patterns: Sequence[str], shapes: Sequence[Shape]) -> bool:
    """Whether the letters can be numbers such that every pattern is its shape."""
    meaning: dict[str, int] = {}
    for pattern, shape in zip(patterns, shapes, strict=True):
        letters = pattern.split()
        if len(letters) != len(shape):
            return False
        for letter, size in zip(letters, shape, strict=True):
            wanted = int(letter) if letter.isdigit() else meaning.setdefault(letter, size)
            if wanted != size:
                return False
    return True


B = BLOCK_PREFIX

VIT = Naming(
    "equimo",
    (
        Rule("local_pos_embed.periods", ("local_pos_embed.patch_rope.freqs",)),
        Rule("blocks.{i}.attn.qkv.bias", (B + "attn.qkv.bias",), BIAS),
        Rule("blocks.{i}.{part}.{p}", (B + "{part}.{p}",)),
        Rule("blocks.{i}.{part}.{layer}.{p}", (B + "{part}.{layer}.{p}",)),
        Rule("patch_embed.proj.{p}", ("patch_embed.proj.{p}",)),
        Rule("cls_token", ("cls_token",)),
        Rule("reg_tokens", ("reg_tokens",)),
        Rule("mask_token", ("mask_token",)),
        Rule("norm.{p}", ("norm.{p}",)),
        Rule("local_cls_norm.{p}", ("local_cls_norm.{p}",)),
    ),
    # Equimo 1.x gives every model a bias here; that of the 7B model has none.
    zero=(B + "attn.qkv.bias",),
)
