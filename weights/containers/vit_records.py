"""The order of the leaves in Equimo's archives of vision transformers, whose records have no names.

Nothing but their order tells one record from another, so the order is a table here. A shape is
written in letters that mean the same number throughout a file.

Source: field order of `equimo.models.vit.VisionTransformer` and its layers (1.1.0 and 2.7.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from weights.distributions import Shape
from weights.errors import NotACheckpoint

Row = tuple[str, str]

# The leaves of dropout are numbers and not arrays; an empty shape stands for those.
BLOCK_PREFIX = "blocks.0.blocks.{i}."

PATCHES: tuple[Row, ...] = (
    ("patch_embed.proj.weight", "D 3 P P"),
    ("patch_embed.proj.bias", "D 1 1"),
)
LEARNED: tuple[Row, ...] = (("global_pos_embed.weight", "N D"),)
ROTARY: tuple[Row, ...] = (("local_pos_embed.patch_rope.freqs", "F"),)
REGISTER_ROTARY: tuple[Row, ...] = (("local_pos_embed.reg_rope.freqs", "F"),)
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
QKV: tuple[Row, ...] = (("attn.qkv.weight", "3D D"),)
QKV_BIAS: tuple[Row, ...] = (("attn.qkv.bias", "3D"),)
PROJ: tuple[Row, ...] = (
    ("attn.proj.weight", "D D"),
    ("attn.proj.bias", "D"),
)
QK_NORMS: tuple[Row, ...] = (
    ("attn.q_norm.weight", "K"),
    ("attn.q_norm.bias", "K"),
    ("attn.k_norm.weight", "K"),
    ("attn.k_norm.bias", "K"),
)
ATTENTION_DROPS: tuple[Row, ...] = (
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
SWIGLU_FUSED: tuple[Row, ...] = (
    ("mlp.w12.weight", "2H D"),
    ("mlp.w12.bias", "2H"),
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
HEAD: tuple[Row, ...] = (("head.weight", "C D"), ("head.bias", "C"))

# Parts of a file in their order, each with what may stand there, the longest first; the parts of
# `BLOCK` come once a layer. The tokens are told apart by how many there are and not by their
# shapes, so only the combinations that Equimo's models have are here: DINOv3 and EUPE, ViT-5,
# DINOv2 and TIPS with registers and without, the plain ViT, SigLIP2.
BEFORE: tuple[tuple[tuple[Row, ...], ...], ...] = (
    (PATCHES,),
    (
        ROTARY + CLASS + REGISTERS + MASK,
        LEARNED + ROTARY + REGISTER_ROTARY + CLASS + REGISTERS,
        LEARNED + CLASS + REGISTERS + MASK,
        LEARNED + CLASS + MASK,
        LEARNED + CLASS,
        LEARNED,
    ),
)
BLOCK: tuple[tuple[tuple[Row, ...], ...], ...] = (
    (NORMS,),
    (SCALES, ()),
    (QKV,),
    (QKV_BIAS, ()),
    (PROJ,),
    (QK_NORMS, ()),
    (ATTENTION_DROPS,),
    (MLP, SWIGLU, SWIGLU_FUSED),
    (DROPS,),
)
AFTER: tuple[tuple[tuple[Row, ...], ...], ...] = ((TAIL,), (LOCAL_NORM, ()), (HEAD, ()))

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

    **Raises** `NotACheckpoint` if no layout has them, or more than one.
    """
    found = [layout for layout in layouts(len(shapes)) if _unify(_arrays(layout), shapes)]
    if len(found) != 1:
        known = "no known order" if not found else f"{len(found)} orders at once"
        raise NotACheckpoint(
            f"the {len(shapes)} arrays of the Equimo checkpoint are in {known} of a vision "
            "transformer: give the archive of one."
        )
    return [name for name, _ in _arrays(found[0])]


def _arrays(layout: Layout) -> Iterator[Row]:
    return ((name, shape) for name, shape in layout.rows() if shape)


def _unify(rows: Iterable[Row], shapes: Sequence[Shape]) -> bool:
    """Whether the letters can be numbers such that every pattern is its shape."""
    meaning: dict[str, int] = {}
    return all(
        len(letters := pattern.split()) == len(shape)
        and all(_means(letter, size, meaning) for letter, size in zip(letters, shape, strict=True))
        for (_, pattern), shape in zip(rows, shapes, strict=True)
    )


def _means(letter: str, size: int, meaning: dict[str, int]) -> bool:
    """Whether `D`, `3D` or `3` can be that number; a letter that is new becomes so."""
    if letter.isdigit():
        return int(letter) == size
    times = int(letter[:-1] or 1)
    return size % times == 0 and meaning.setdefault(letter[-1], size // times) == size // times
