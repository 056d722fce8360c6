"""Activations and positions as configurations state them: plain data without JAX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from zoo.architectures.config_fields import (
    Configuration,
    Key,
    Shapes,
    config_class,
    detail,
    length,
)

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "relu"]
"""Name of an activation in a configuration; `layers.py` has the functions."""


@dataclass(frozen=True)
class ActivationNames:
    """An activation's names in transformers, the first of which is written, and in Equimo."""

    transformers: tuple[str, ...]
    equimo: str


CALLED: dict[Activation, ActivationNames] = {
    "gelu": ActivationNames(("gelu",), "exactgelu"),
    "gelu_tanh": ActivationNames(("gelu_pytorch_tanh", "gelu_new"), "gelu"),
    "quick_gelu": ActivationNames(("quick_gelu",), ""),
    "relu": ActivationNames(("relu",), "relu"),
}

OF_TRANSFORMERS: dict[str, Activation] = {
    theirs: ours for ours, called in CALLED.items() for theirs in called.transformers
}


OF_SETTINGS = Key("hidden_act", OF_TRANSFORMERS.get, lambda name: CALLED[name].transformers[0])
"""The name of an activation in config.json; one that the zoo does not have says nothing."""

OF_EQUIMO = Key("act_layer", write=lambda name: CALLED[name].equimo)

POSITIONS = "global_pos_embed.weight"
"""The leaf of learned positions."""


def _side(usual: LearnedPositions, shapes: Shapes) -> int:
    """Return the side of a square grid with the rows of a leaf; 0 where that is none, whose height
    only settings state."""
    patches = max(0, length(shapes, POSITIONS) - usual.prefix)
    side = math.isqrt(patches)
    return side if side**2 == patches else 0


def _columns(usual: LearnedPositions, shapes: Shapes) -> int | None:
    """Return the rows of a leaf, where they are of no square grid."""
    patches = max(0, length(shapes, POSITIONS) - usual.prefix)
    return None if math.isqrt(patches) ** 2 == patches else patches


@config_class
class LearnedPositions(Configuration):
    """A learned table of positions, and how it is brought to another grid than its own.

    `grid` is the number of patches along each side of the images it was trained on, or along their
    height, where those were no squares and had `columns` along their width. `cls_token` says that
    the first row is the class token's, and `registers` how many behind it are those of registers.
    Another grid is interpolated by cubic convolution: with `antialias` as torch's
    `interpolate(antialias=True)` (a = -0.5), else as without (a = -0.75). With `linear`, which
    needs `antialias`, it is interpolated linearly.
    `offset` is added to the wanted grid before the scale is taken from it, as DINOv2 does.
    """

    grid: int = detail(leaf=_side)
    cls_token: bool = True
    antialias: bool = False
    offset: float = 0.0
    linear: bool = False
    registers: int = 0
    columns: int | None = detail(default=None, leaf=_columns)

    @property
    def is_consistent(self) -> bool:
        """Whether the grid is known."""
        return self.grid > 0 and (self.columns is None or self.columns > 0)

    @property
    def sides(self) -> tuple[int, int]:
        """Patches along height and width."""
        return self.grid, self.columns or self.grid

    @property
    def patches(self) -> int:
        """Rows of patches; of a grid that nobody has said, too, whose height is zero."""
        return max(1, self.grid) * (self.columns or self.grid)

    @property
    def prefix(self) -> int:
        """Rows in front of those of patches."""
        return self.cls_token + self.registers


@dataclass(frozen=True)
class RopePeriods:
    """DINOv3's rotary positions: coordinates in [-1, 1], periods up to `base`."""

    base: float = 100.0


@dataclass(frozen=True)
class RopeGrid:
    """ViT-5's rotary positions: patches stretched over `length` steps, neighbours paired.

    `length` is that of the images of training in patches, frequencies go down to 1 / `theta`, and
    the registers are the patches of a small square image with a `theta` of their own.
    """

    length: int = 14
    theta: float = 10000.0
    register_theta: float = 100.0
