"""Sizes read off the shapes of leaves: what several kinds of networks need for it."""

from itertools import count, takewhile

from zoo.architectures.architecture import Shapes
from zoo.architectures.common_config import Four


def count_rows(shapes: Shapes, leaf: str, axis: int = 0) -> int:
    """How many rows or columns a matrix has; 0 where there is none."""
    return (shapes(leaf) or (0, 0))[axis]


def count_numbered(shapes: Shapes, leaf: str) -> int:
    """How many leaves of numbered names there are, from 0 on."""
    return sum(1 for _ in takewhile(lambda number: shapes(leaf.format(number)), count()))


def channels_between(shapes: Shapes, first: str, last: str, times: int) -> int:
    """The channels between two layers of a block; 0 where they are not those."""
    one, other = (shapes(f"blocks.0.mlp.{layer}.weight") or () for layer in (first, last))
    fitting = len(one) == len(other) == 2 and one[0] == times * other[1]
    return other[1] if fitting else 0


def as_four(numbers: list[int]) -> Four:
    """Four numbers of a list."""
    first, second, third, fourth = numbers
    return first, second, third, fourth
