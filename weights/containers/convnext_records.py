"""The order of the leaves in Equimo's ConvNeXt archives, whose records have no names.

Source: field order of `equimo.models.convnext.ConvNeXt` and its layers (1.1.0), the same in
`equimo.vision.models.convnext` (2.7.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from weights.distributions import Shape

Record = tuple[str, Shape]


def records(depths: Sequence[int], dims: Sequence[int]) -> Iterator[Record]:
    """Path and shape of every record of Equimo's file, in their order; scalars have no shape.

    The order is that of the fields in Equimo's classes: blocks come before the layer that makes
    their input.
    """
    for stage, (depth, dim) in enumerate(zip(depths, dims, strict=True)):
        prefix = f"blocks.{stage}."
        for block in range(depth):
            yield from _prefixed(f"{prefix}blocks.{block}.", _block(dim))
        yield from _prefixed(prefix + "downsample.", _down(dim, dims[stage - 1] if stage else None))
    yield from (("dropout.p", ()), ("dropout.inference", ()))
    yield from _norm("norm.", dims[-1])


def _prefixed(prefix: str, records: Iterator[Record]) -> Iterator[Record]:
    return ((prefix + name, shape) for name, shape in records)


def _block(dim: int) -> Iterator[Record]:
    yield from _conv("dwconv.", (dim, 1, 7, 7))
    yield from _norm("norm.", dim)
    yield from _conv("pwconv1.", (4 * dim, dim, 1, 1))
    yield from _conv("pwconv2.", (dim, 4 * dim, 1, 1))
    yield from (("ls.gamma", (dim,)), ("drop_path.p", ()), ("drop_path.inference", ()))


def _down(dim: int, narrower: int | None) -> Iterator[Record]:
    """The stem, which has its norm last, or what stands between two stages."""
    if narrower is None:
        yield from _conv("conv.", (dim, 3, 4, 4))
        yield from _norm("norm.", dim)
    else:
        yield from _norm("norm.", narrower)
        yield from _conv("conv.", (dim, narrower, 2, 2))


def _conv(prefix: str, shape: Shape) -> Iterator[Record]:
    yield from ((prefix + "weight", shape), (prefix + "bias", (shape[0], 1, 1)))


def _norm(prefix: str, dim: int) -> Iterator[Record]:
    yield from ((prefix + "weight", (dim,)), (prefix + "bias", (dim,)))


def expected(shapes: Sequence[Shape]) -> list[Record]:
    """All records of the ConvNeXt that some of these arrays belong to; none if they do not.

    Depthwise weights tell how many blocks there are of which width.
    """
    depths = Counter(shape[0] for shape in shapes if len(shape) == 4 and shape[1:] == (1, 7, 7))
    return list(records(tuple(depths.values()), tuple(depths))) if depths else []


def record_names(shapes: Sequence[Shape]) -> list[str] | None:
    """The path of each array in a file; None if they are not those of a ConvNeXt, in order."""
    arrays = [(name, shape) for name, shape in expected(shapes) if shape]
    fits = bool(arrays) and [shape for _, shape in arrays] == list(shapes)
    return [name for name, _ in arrays] if fits else None
