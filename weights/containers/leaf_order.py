"""The order of the leaves in Equimo's archives, whose records have no names.

Nothing but their order tells one record from another, so the order is a table here. A row is a
path and a shape; a letter means the same number throughout a vision transformer, and throughout a
stage of a ConvNeXt. The leaves of dropout are numbers and not arrays; they have an empty shape.

Source: field order of `VisionTransformer`, `ConvNeXt` and their layers in `equimo.models` (1.1.0)
and `equimo.vision.models` (2.7.0).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, product

from weights.errors import NotACheckpoint
from weights.initializers import Shape

Row = tuple[str, str]
Part = tuple[Row, ...]


def rows(text: str) -> Part:
    """The rows of a table: `path[shape]`."""
    return tuple(re.findall(r"(\S+)\[(.*?)\]", text))


BLOCK_PREFIX = "blocks.0.blocks.{i}."

LEARNED, CLASS = "global_pos_embed.weight[N D] ", "cls_token[1 D] "
REGISTERS, MASK = "reg_tokens[R D] ", "mask_token[1 D] "
ROTARY = "local_pos_embed.patch_rope.freqs[F] "
REGISTER_ROTARY = "local_pos_embed.reg_rope.freqs[F] "

# Parts of a file in their order, each with what may stand there, the longest first; the parts of
# `BLOCK_LEAVES` come once a layer. The tokens are told apart by how many there are and not by their
# shapes, so only the combinations that Equimo's models have are here: DINOv3 and EUPE, ViT-5,
# DINOv2 and TIPS with registers and without, the plain ViT, SigLIP2.
BEFORE = (
    ("patch_embed.proj.weight[D 3 P P] patch_embed.proj.bias[D 1 1]",),
    (
        ROTARY + CLASS + REGISTERS + MASK,
        LEARNED + ROTARY + REGISTER_ROTARY + CLASS + REGISTERS,
        LEARNED + CLASS + REGISTERS + MASK,
        LEARNED + CLASS + MASK,
        LEARNED + CLASS,
        LEARNED,
    ),
)
BLOCK_LEAVES = (
    ("prenorm.weight[D] prenorm.bias[D] norm.weight[D] norm.bias[D]",),
    ("ls1.gamma[D] ls2.gamma[D]", ""),
    ("attn.qkv.weight[3D D]",),
    ("attn.qkv.bias[3D]", ""),
    ("attn.proj.weight[D D] attn.proj.bias[D]",),
    ("attn.q_norm.weight[K] attn.q_norm.bias[K] attn.k_norm.weight[K] attn.k_norm.bias[K]", ""),
    (
        "attn.attn_drop.p[] attn.attn_drop.inference[] "
        "attn.proj_drop.p[] attn.proj_drop.inference[]",
    ),
    (
        "mlp.fc1.weight[H D] mlp.fc1.bias[H] mlp.fc2.weight[D H] mlp.fc2.bias[D]",
        "mlp.w1.weight[H D] mlp.w1.bias[H] mlp.w2.weight[H D] mlp.w2.bias[H] "
        "mlp.w3.weight[D H] mlp.w3.bias[D]",
        "mlp.w12.weight[2H D] mlp.w12.bias[2H] mlp.w3.weight[D H] mlp.w3.bias[D]",
    ),
    (
        "mlp.drop1.p[] mlp.drop1.inference[] mlp.drop2.p[] mlp.drop2.inference[] "
        "drop_path1.p[] drop_path1.inference[] drop_path2.p[] drop_path2.inference[]",
    ),
)
AFTER = (
    ("pos_drop.p[] pos_drop.inference[] norm.weight[D] norm.bias[D]",),
    ("local_cls_norm.weight[D] local_cls_norm.bias[D]", ""),
    ("head.weight[C D] head.bias[C]", ""),
)
ALTERNATIVES = [
    [rows(" ".join(choice)) for choice in product(*parts)]
    for parts in (BEFORE, BLOCK_LEAVES, AFTER)
]
"""What may stand before the layers of a vision transformer, in each of them, and behind them."""

CONVNEXT_BLOCK = rows(
    "dwconv.weight[D 1 7 7] dwconv.bias[D 1 1] norm.weight[D] norm.bias[D] "
    "pwconv1.weight[4D D 1 1] pwconv1.bias[4D 1 1] pwconv2.weight[D 4D 1 1] pwconv2.bias[D 1 1] "
    "ls.gamma[D] drop_path.p[] drop_path.inference[]"
)
# The stem, which has its norm last, or what stands between two stages; `N` is the narrower one.
CONVNEXT_STEM = rows("conv.weight[D 3 4 4] conv.bias[D 1 1] norm.weight[D] norm.bias[D]")
CONVNEXT_DOWN = rows("norm.weight[N] norm.bias[N] conv.weight[D N 2 2] conv.bias[D 1 1]")
CONVNEXT_TAIL = rows("dropout.p[] dropout.inference[] norm.weight[D] norm.bias[D]")


def layouts(shapes: Sequence[Shape]) -> Iterator[Part]:
    """Path and shape of every record, scalars included, of every network with so many arrays."""
    yield _convnext(shapes)
    for before, block, after in product(*ALTERNATIVES):
        remaining = len(shapes) - len(arrays_of(before)) - len(arrays_of(after))
        depth, left = divmod(remaining, len(arrays_of(block)))
        if depth > 0 and not left:
            layers = (_placed(block, BLOCK_PREFIX.format(i=i)) for i in range(depth))
            yield (*before, *chain.from_iterable(layers), *after)


def _convnext(shapes: Sequence[Shape]) -> Part:
    """The rows of the ConvNeXt that some of these arrays belong to; none if they do not.

    Depthwise weights tell how many blocks there are of which width. The order is that of the fields
    in Equimo's classes: blocks come before the layer that makes their input.
    """
    depths = Counter(shape[0] for shape in shapes if len(shape) == 4 and shape[1:] == (1, 7, 7))
    items: list[Row] = []
    # Every width gets a letter of its own.
    for stage, (depth, *widths) in enumerate(zip(depths.values(), "wxyz", " wxy", strict=False)):
        prefix = f"blocks.{stage}."
        for block in range(depth):
            items += _placed(CONVNEXT_BLOCK, f"{prefix}blocks.{block}.", *widths)
        items += _placed(CONVNEXT_DOWN if stage else CONVNEXT_STEM, prefix + "downsample.", *widths)
        tail = _placed(CONVNEXT_TAIL, "", *widths)
    return (*items, *tail) if items else ()


def _placed(part: Part, prefix: str, width: str = "D", narrower: str = "N") -> Part:
    letters = str.maketrans({"D": width, "N": narrower})
    return tuple((prefix + name, shape.translate(letters)) for name, shape in part)


def record_names(shapes: Sequence[Shape]) -> list[str]:
    """The path of each array in a file, from the arrays' shapes in their order. **Raises**
    `NotACheckpoint` if no layout has them, or more than one."""
    orders = [rows for rows in map(arrays_of, layouts(shapes)) if _unify(rows, shapes)]
    if len(orders) != 1:
        trouble = "no known order" if not orders else f"{len(orders)} orders at once"
        raise NotACheckpoint(
            f"the {len(shapes)} arrays of the Equimo checkpoint are in {trouble} of a vision "
            "transformer or a ConvNeXt: give the archive of one."
        )
    return [name for name, _ in orders[0]]


def arrays_of(part: Part) -> Part:
    """The rows that are no scalars."""
    return tuple(row for row in part if row[1])


def _unify(rows: Part, shapes: Sequence[Shape]) -> bool:
    """Whether the letters can be numbers such that every pattern is its shape."""
    meaning: dict[str, int] = {}
    return len(rows) == len(shapes) > 0 and all(
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
