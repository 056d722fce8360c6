"""Draw features as a matplotlib figure, with a row for each image and a column for each panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weights.parameters import parameter
from zoo.apps.show.features import Features
from zoo.common.errors import BadRequest
from zoo.images.pictures import UInt8
from zoo.images.pixel_values import Float32
from zoo.tasks.maps import principal_components

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WARNING = "#d55e00"

PANEL_PIXELS = 320
"""The least number of pixels along the longer side of a panel."""

PANEL_INCHES, MIN_WIDTH = 3.5, 2.8
"""The longer side of a panel, and the least width of a column with its labels, in inches."""

BAR_INCHES = 0.12
"""The height of a colour bar in inches."""

MAX_PIXELS = 16_383
"""The largest number of pixels along a side of a WebP picture. A larger figure gets a lower
resolution."""


def cosine_to_patch(patches: Float32, patch: tuple[int, int]) -> Float32:
    """Return the cosine of each patch with one patch of the first image: `[n, rows, columns]`.

    `patches` are features `[n, rows, columns, dim]`. `patch` is the (row, column) of the one patch.
    """
    unit_vectors = patches / np.maximum(np.linalg.norm(patches, axis=-1, keepdims=True), 1e-12)
    return unit_vectors @ unit_vectors[0, patch[0], patch[1]]


@dataclass(frozen=True)
class Panel:
    """One column of a figure, which shows one kind of numbers of all images.

    - `title`: the text above the column.
    - `values`: colours `[n, rows, columns, 3]` or numbers `[n, rows, columns]`.
    - `label`: the text below the column.
    - `number_format`: the format of the ends of the colour bar of numbers. Without it there is no
      colour bar.
    """

    title: str
    values: UInt8 | Float32
    label: str
    number_format: str = ""


def draw_features(features: Features, patch: tuple[int, int] | None = None) -> Figure:
    """Draw all panels of all images, below the note of the features if there is one.

    **Arguments**

    - `features`: the features of the images.
    - `patch`: the (row, column) of the patch that all patches are compared with, by default the one
      in the middle. It is framed in the first image.

    **Raises** `BadRequest` if there is no such patch.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    rows, columns = features.grid
    row, column = patch = patch or (rows // 2, columns // 2)
    if not (0 <= row < rows and 0 <= column < columns):
        raise BadRequest(
            f"{parameter('patch')} {row},{column} is outside: there are {rows} rows and {columns} "
            "columns of patches, counted from 0."
        )
    panels = make_panels(features, patch)
    count, height, width, _ = features.pixels.shape
    side = max(height, width)
    across = len(panels) * max(PANEL_INCHES * width / side, MIN_WIDTH)
    heights = [*[PANEL_INCHES * height / side] * count, BAR_INCHES]
    down = sum(heights) + (0.9 if features.note else 0.7) + 0.05 * count  # and the labels
    dpi = side * max(1, round(PANEL_PIXELS / side)) / PANEL_INCHES
    figure = Figure((across, down), min(dpi, MAX_PIXELS / max(across, down)), layout="constrained")
    cells = figure.subplots(count + 1, len(panels), squeeze=False, height_ratios=heights)
    for panel, (*image_axes, foot) in zip(panels, cells.T, strict=True):
        # The extent is in pixels of the image, so that all panels have its shape.
        draw_panel(panel, image_axes, foot, extent=(0, width, height, 0))
    patch_height, patch_width = height / rows, width / columns
    frame = Rectangle(
        (column * patch_width, row * patch_height),
        patch_width,
        patch_height,
        fill=False,
        color="red",
        lw=1.5,
    )
    cells[0, 0].add_patch(frame)
    if features.note:
        figure.suptitle(f"⚠ {features.note}", color=WARNING, weight="bold")
    return figure


def draw_panel(
    panel: Panel, cells: list[Axes], foot: Axes, extent: tuple[float, float, float, float]
) -> None:
    """Draw a panel as one column of a figure.

    **Arguments**

    - `cells`: the axes for each image, from top to bottom.
    - `foot`: the axes below them, for the colour bar and the label.
    - `extent`: the left, right, bottom and top coordinates of an image.
    """
    limits = (panel.values.min(), panel.values.max())
    for axes, values in zip(cells, panel.values, strict=True):
        image = axes.imshow(values, "viridis", clim=limits, extent=extent)
        axes.set(xticks=[], yticks=[], anchor="S")
        axes.spines[:].set_visible(False)
    cells[0].set_title(panel.title)
    if not panel.number_format:
        foot.set(xticks=[], yticks=[], xlabel=panel.label)
        foot.spines[:].set_visible(False)
        return
    bar = foot.figure.colorbar(image, foot, orientation="horizontal")
    bar.set_ticks(limits, labels=[format(limit, panel.number_format) for limit in limits])
    low, high = foot.get_xticklabels()
    low.set_horizontalalignment("left")
    high.set_horizontalalignment("right")
    foot.set_xlabel(panel.label, labelpad=-9)  # between the labels of the ends


def make_panels(features: Features, patch: tuple[int, int]) -> list[Panel]:
    """Return the panels of features: images, principal components, and similarity to a patch.

    A panel with the attention is added if it is available. `patch` is (row, column).
    """
    (rows, columns), (height, width) = features.grid, features.pixels.shape[1:3]
    size = f"{height} x {width} pixels, {rows} x {columns} patches"
    colours = principal_components(features.patches)
    cosines = cosine_to_patch(features.patches, patch)
    panels = [
        Panel("image", features.pixels, size),
        Panel("principal components", colours, "red, green, blue: the first, second, third"),
        Panel(f"likeness to patch {patch[0]},{patch[1]}", cosines, "cosine", ".2f"),
    ]
    if features.attention is not None:
        title = "attention of the class token"
        panels.append(Panel(title, features.attention, "share of a patch", ".2%"))
    return panels
