"""The order of the leaves in Equimo's archives, whose records have no names.

A record can only be named by its position, so this module contains the order as a table. A row is a
path and a shape. A letter in shapes is a size: one for a whole vision transformer, or one for each
stage of a ConvNeXt. The leaves of dropout are numbers, not arrays, and have an empty shape.

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


def parse_rows(text: str) -> Part:
    """Return the rows (path, shape) of a text such as `"norm.weight[D] norm.bias[D]"`."""
    return tuple(re.findall(r"(\S+)\[(.*?)\]", text))


BLOCK_PREFIX = "blocks.0.blocks.{i}."

LEARNED, CLASS = "global_pos_embed.weight[N D] ", "cls_token[1 D] "
REGISTERS, MASK = "reg_tokens[R D] ", "mask_token[1 D] "
ROTARY = "local_pos_embed.patch_rope.freqs[F] "
REGISTER_ROTARY = "local_pos_embed.reg_rope.freqs[F] "

# Parts of a file in their order. Each part is a tuple of alternatives, the longest first. The parts
# of `BLOCK_LEAVES` are repeated for each layer. Shapes do not distinguish the tokens, only their
# number does. So the alternatives are the combinations that Equimo's models have: DINOv3 and EUPE,
# ViT-5, DINOv2 and TIPS with and without registers, the plain ViT, SigLIP2.
LEADING_LEAVES = (
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
TRAILING_LEAVES = (
    ("pos_drop.p[] pos_drop.inference[] norm.weight[D] norm.bias[D]",),
    ("local_cls_norm.weight[D] local_cls_norm.bias[D]", ""),
    ("head.weight[C D] head.bias[C]", ""),
)
ALTERNATIVES = [
    [parse_rows(" ".join(choice)) for choice in product(*parts)]
    for parts in (LEADING_LEAVES, BLOCK_LEAVES, TRAILING_LEAVES)
]
"""Alternatives for the leaves before the layers of a vision transformer, for those of a layer, and
for those after the layers."""

CONVNEXT_BLOCK = parse_rows(
    "dwconv.weight[D 1 7 7] dwconv.bias[D 1 1] norm.weight[D] norm.bias[D] "
    "pwconv1.weight[4D D 1 1] pwconv1.bias[4D 1 1] pwconv2.weight[D 4D 1 1] pwconv2.bias[D 1 1] "
    "ls.gamma[D] drop_path.p[] drop_path.inference[]"
)
# The stem, whose norm is last, and the layers between two stages, where `N` is the narrower width.
CONVNEXT_STEM = parse_rows("conv.weight[D 3 4 4] conv.bias[D 1 1] norm.weight[D] norm.bias[D]")
CONVNEXT_DOWN = parse_rows("norm.weight[N] norm.bias[N] conv.weight[D N 2 2] conv.bias[D 1 1]")
CONVNEXT_TAIL = parse_rows("dropout.p[] dropout.inference[] norm.weight[D] norm.bias[D]")


def possible_layouts(shapes: Sequence[Shape]) -> Iterator[Part]:
    """Yield the rows, with those of scalars, of networks that may have these arrays.

    The first item is the ConvNeXt with this number of depthwise weights; empty if there are none.
    The others are vision transformers that have as many arrays as there are shapes. Otherwise the
    shapes are not compared with the rows.
    """
    yield _convnext_rows(shapes)
    for leading, block, trailing in product(*ALTERNATIVES):
        remaining = len(shapes) - len(drop_scalars(leading)) - len(drop_scalars(trailing))
        depth, remainder = divmod(remaining, len(drop_scalars(block)))
        if depth > 0 and not remainder:
            layers = (_prefix_rows(block, BLOCK_PREFIX.format(i=i)) for i in range(depth))
            yield (*leading, *chain.from_iterable(layers), *trailing)


def _convnext_rows(shapes: Sequence[Shape]) -> Part:
    """Return the rows of the ConvNeXt that these arrays may belong to; an empty tuple if there is
    no depthwise weight among them.

    The depthwise weights determine the number and width of the blocks. The order is that of the
    fields in Equimo's classes: the blocks of a stage come before the layer that computes their
    input.
    """
    depths = Counter(shape[0] for shape in shapes if len(shape) == 4 and shape[1:] == (1, 7, 7))
    items: list[Row] = []
    # The width of each stage gets its own letter.
    for stage, (depth, *widths) in enumerate(zip(depths.values(), "wxyz", " wxy", strict=False)):
        prefix = f"blocks.{stage}."
        for block in range(depth):
            items += _prefix_rows(CONVNEXT_BLOCK, f"{prefix}blocks.{block}.", *widths)
        items += _prefix_rows(
            CONVNEXT_DOWN if stage else CONVNEXT_STEM, prefix + "downsample.", *widths
        )
        tail = _prefix_rows(CONVNEXT_TAIL, "", *widths)
    return (*items, *tail) if items else ()


def _prefix_rows(part: Part, prefix: str, width: str = "D", narrower: str = "N") -> Part:
    """Return the rows of a part with `prefix` before each path, and with other letters in place of
    the sizes `D` and `N`: `width` and `narrower`."""
    letters = str.maketrans({"D": width, "N": narrower})
    return tuple((prefix + name, shape.translate(letters)) for name, shape in part)


def record_names(shapes: Sequence[Shape]) -> list[str]:
    """Return the path of each array of a file, in the order of the shapes.

    **Raises** `NotACheckpoint` if the shapes are those of no known network, or of more than one.
    """
    orders = [
        rows for rows in map(drop_scalars, possible_layouts(shapes)) if _match_shapes(rows, shapes)
    ]
    if len(orders) != 1:
        description = "no known order" if not orders else f"{len(orders)} orders at once"
        raise NotACheckpoint(
            f"the {len(shapes)} arrays of the Equimo checkpoint are in {description} of a vision "
            "transformer or a ConvNeXt: give the archive of one of these."
        )
    return [name for name, _ in orders[0]]


def drop_scalars(part: Part) -> Part:
    """Return the rows of a part without those of scalars."""
    return tuple(row for row in part if row[1])


def _match_shapes(rows: Part, shapes: Sequence[Shape]) -> bool:
    """Return True if every row can have the shape at its position, with one size for each
    letter."""
    meaning: dict[str, int] = {}
    return len(rows) == len(shapes) > 0 and all(
        len(letters := pattern.split()) == len(shape)
        and all(
            _match_size(letter, size, meaning) for letter, size in zip(letters, shape, strict=True)
        )
        for (_, pattern), shape in zip(rows, shapes, strict=True)
    )


def _match_size(letter: str, size: int, meaning: dict[str, int]) -> bool:
    """Return True if an entry of a row's shape, such as `D`, `3D` or `3`, can have this size.

    `meaning` has the size of each letter. A letter that is not in it is added.
    """
    if letter.isdigit():
        return int(letter) == size
    times = int(letter[:-1] or 1)
    return size % times == 0 and meaning.setdefault(letter[-1], size // times) == size // times
