"""Activations and positions as options in configurations. This module is plain data without JAX."""

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
"""Name of an activation in a configuration. `layers.py` has the functions."""


@dataclass(frozen=True)
class ActivationNames:
    """Names of an activation in other libraries.

    **Arguments:**

    - `transformers`: names in transformers, the first of which is written.
    - `equimo`: the name in Equimo; empty if there is none.
    """

    transformers: tuple[str, ...]
    equimo: str


ACTIVATION_NAMES: dict[Activation, ActivationNames] = {
    "gelu": ActivationNames(("gelu",), "exactgelu"),
    "gelu_tanh": ActivationNames(("gelu_pytorch_tanh", "gelu_new"), "gelu"),
    "quick_gelu": ActivationNames(("quick_gelu",), ""),
    "relu": ActivationNames(("relu",), "relu"),
}

TRANSFORMERS_ACTIVATIONS: dict[str, Activation] = {
    name: activation
    for activation, names in ACTIVATION_NAMES.items()
    for name in names.transformers
}
"""Activations by their names in transformers."""


ACTIVATION_KEY = Key(
    "hidden_act", TRANSFORMERS_ACTIVATIONS.get, lambda name: ACTIVATION_NAMES[name].transformers[0]
)
"""Key of an activation in config.json. An activation that the zoo does not have is ignored."""

EQUIMO_ACTIVATION_KEY = Key("act_layer", write=lambda name: ACTIVATION_NAMES[name].equimo)
"""Key of an activation in Equimo's settings, which is only written."""

POSITIONS = "global_pos_embed.weight"
"""Leaf with the table of learned positions."""


def _grid_side(config: LearnedPositions, shapes: Shapes) -> int:
    """Return the side of the square grid of learned positions in a checkpoint, without the rows
    before those for patches.

    Return 0 if the number of patches is not a square. Only settings then determine the height of
    the grid.
    """
    patches = max(0, length(shapes, POSITIONS) - config.prefix)
    side = math.isqrt(patches)
    return side if side**2 == patches else 0


def _columns(config: LearnedPositions, shapes: Shapes) -> int | None:
    """Return None if the number of patches in the table of a checkpoint is a square, or else the
    number of all patches.

    The height of a grid that is not square is not known yet. All patches count as one row.
    """
    patches = max(0, length(shapes, POSITIONS) - config.prefix)
    return None if math.isqrt(patches) ** 2 == patches else patches


@config_class
class LearnedPositions(Configuration):
    """A table of learned position embeddings, and how it is interpolated to other grids.

    **Arguments:**

    - `grid`: the number of patches along each side of the pictures of training, or along their
      height if they were not square.
    - `cls_token`: whether the first row is for the class token.
    - `antialias`: whether interpolation is that of torch's `interpolate(antialias=True)`, whose
      cubic kernel has a = -0.5. Without it, a = -0.75.
    - `offset`: a number that is added to the new size of the grid before the scale is computed, as
      in DINOv2.
    - `linear`: whether interpolation is linear, which needs `antialias`. Otherwise it is cubic.
    - `registers`: the number of rows for registers, after that of the class token.
    - `columns`: the number of patches along the width of the pictures of training; None for square
      pictures.
    """

    grid: int = detail(leaf=_grid_side)
    cls_token: bool = True
    antialias: bool = False
    offset: float = 0.0
    linear: bool = False
    registers: int = 0
    columns: int | None = detail(default=None, leaf=_columns)

    @property
    def is_consistent(self) -> bool:
        """Whether the numbers of rows and columns of the grid are known. The rows are not known,
        and `grid` is 0, if a checkpoint was read whose grid is not square."""
        return self.grid > 0 and (self.columns is None or self.columns > 0)

    @property
    def sides(self) -> tuple[int, int]:
        """Number of patches along the height and along the width of the pictures of training."""
        return self.grid, self.columns or self.grid

    @property
    def patches(self) -> int:
        """Number of table rows that are for patches. If the height of the grid is not known yet, it
        counts as 1."""
        return max(1, self.grid) * (self.columns or self.grid)

    @property
    def prefix(self) -> int:
        """Number of table rows before those for patches: one for the class token, and the
        registers."""
        return self.cls_token + self.registers


@dataclass(frozen=True)
class RopePeriods:
    """Option for DINOv3's rotary positions: patches have coordinates in [-1, 1], and `base` is the
    upper limit of the periods."""

    base: float = 100.0


@dataclass(frozen=True)
class RopeGrid:
    """Option for ViT-5's rotary positions: the patches are spread over `length` steps, and
    neighbouring channels are pairs.

    **Arguments:**

    - `length`: the number of patches along a side of the pictures of training.
    - `theta`: the base of the frequencies of patches, which decrease from 1 to nearly `1 / theta`.
    - `register_theta`: the base of the frequencies of registers, which have the positions of a
      small square picture.
    """

    length: int = 14
    theta: float = 10000.0
    register_theta: float = 100.0
