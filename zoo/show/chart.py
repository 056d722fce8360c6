"""Charts of `--plot`, which matplotlib draws: bars beside each other, and the errors of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zoo.errors import MissingLibrary
from zoo.files.staging import replacing
from zoo.images.pixel_values import Float32, Size
from zoo.show.save import check_place

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECADES = 8
"""Magnitudes of errors that a histogram shows; smaller ones are in its first bar."""


def check_plot(file: Path | None) -> None:
    """**Raises** a `ZooError` if no chart could be written there, before there is one."""
    if file is None:
        return
    check_place("--plot", file)
    if find_spec("matplotlib") is None:
        raise MissingLibrary(
            "--plot needs matplotlib, which is not installed: run `pip install matplotlib`."
        )


def save_chart(chart: Figure, file: Path) -> None:
    """Write a chart, complete or not at all. **Raises** `BadOutput`."""
    with replacing(file) as place:
        chart.savefig(place)


def bars(
    title: str, groups: Mapping[str, Mapping[str, float | None]], mark: float | None = None
) -> Figure:
    """Horizontal bars in groups.

    **Arguments:** the title; by group and then by series the values, None for what there is none
    of; and a value at which a line is drawn, such as 1 for ratios.
    """
    from matplotlib.figure import Figure

    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    thickness = 0.8 / len(series)
    chart = Figure((9, 1.5 + 0.25 * len(series) * len(groups)), layout="constrained")
    axes = chart.subplots()
    for number, name in enumerate(series):
        rows = [row for row, group in enumerate(groups.values()) if name in group]
        values = [group[name] for group in groups.values() if name in group]
        places = [row + (number + 0.5) * thickness - 0.4 for row in rows]
        drawn = axes.barh(places, [value or 0 for value in values], thickness, label=name)
        told = ["not run" if value is None else f"{value:.2f}" for value in values]
        axes.bar_label(drawn, told, padding=3, fontsize=8)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_title(title)
    chart.legend(loc="outside lower center", ncols=4, fontsize=8)
    if mark is not None:
        axes.axvline(mark, color="gray", linewidth=0.8)
    return chart


def draw_residuals(files: Sequence[tuple[str, Mapping[str, Float32], Size]]) -> Figure:
    """A row for each output: the mean error of each patch as a map, and how often errors of each
    magnitude occur.

    **Arguments:** of each file a title, absolute differences by the output's name, of one image
    each: tokens `[1, tokens, dim]`, maps `[1, dim, rows, columns]`, heads `[1, heads, patches]` or
    vectors `[1, dim]`; and the rows and columns of patches. A vector's map has a column for each of
    its numbers.
    """
    from matplotlib.figure import Figure

    rows = [(title, *each, grid) for title, found, grid in files for each in found.items()]
    chart = Figure((9, 2.5 * len(rows)), layout="constrained")
    for (left, right), (title, name, errors, grid) in zip(
        chart.subplots(len(rows), 2, squeeze=False), rows, strict=True
    ):
        left.imshow(patch_means(errors, grid), aspect="auto")
        left.set_axis_off()
        left.set_title(title, loc="left", fontsize=8)
        right.set_title(summary(name, errors, grid), loc="right", fontsize=8)
        sizes = errors[np.isfinite(errors)]
        largest = max(sizes.max(initial=0), 1e-30)
        edges = np.geomspace(largest / 10**DECADES, largest, 4 * DECADES + 1)
        right.hist(np.clip(sizes, edges[0], edges[-1]), edges)
        right.set_xscale("log")
    return chart


def patch_means(errors: Float32, grid: Size) -> Float32:
    """[rows, columns]: the mean over the channels, of patches if there are any."""
    finite = np.nan_to_num(errors[0], posinf=0.0)
    rows, columns = grid
    if finite.ndim == 3:
        return finite.mean(axis=0)
    if finite.ndim == 2 and len(finite) >= rows * columns:
        return finite[len(finite) - rows * columns :].mean(axis=1).reshape(grid)
    if finite.ndim == 2 and finite.shape[1] == rows * columns:
        return finite.mean(axis=0).reshape(grid)
    return finite.reshape(1, -1)


def summary(name: str, errors: Float32, grid: Size) -> str:
    """The largest and the mean error, and the mean of what lies before the patches."""
    told = f"{name}: largest {errors.max():.1e}, mean {errors.mean():.1e}"
    before = errors.shape[1] - grid[0] * grid[1] if errors.ndim == 3 else 0
    if before <= 0:
        return told
    first = errors[0, :before].mean()
    return f"{told}, of the {before} tokens before the patches {first:.1e}"
