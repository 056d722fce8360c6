"""Charts of `--plot`, drawn by matplotlib: times, bars beside each other, errors of files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weights.parameters import parameter
from zoo.apps.show.save import check_place
from zoo.common.errors import MissingLibrary
from zoo.common.staging import replacing
from zoo.images.pixel_values import Float32, Size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_ERROR, MOST_ERROR = 1e-8, 1.0
"""Differences between which the axis of errors goes, the same in every picture; a larger one makes
it longer, and smaller ones are in the first bar."""

BARS_A_DECADE = 4

WIDE = 7.5
"""Inches, so that letters of 9 points are read where a page is as wide."""

COLOURS = "viridis"
BAR, MARK, FAINT = "#0072b2", "#d55e00", "#808080"
"""Of bars, of limits and of what is told beside them: read on a bright page and on a dark one."""


@dataclass(frozen=True)
class ResidualRow:
    """One output of a file, as `draw_residuals` shows it.

    `errors` are absolute differences of one image: tokens `[1, tokens, dim]`, maps
    `[1, dim, rows, columns]`, heads `[1, heads, patches]` or vectors `[1, dim]`; `grid` has the
    rows and columns of patches. `verdict` says in words whether the output is right. `allowed` is
    the largest difference that is, None where something else is asked, such as a cosine.
    """

    title: str
    verdict: str
    errors: Float32
    grid: Size
    allowed: float | None


@dataclass(frozen=True)
class TimedRow:
    """One file: milliseconds of its runs, and how often the first file's median its own is."""

    name: str
    fastest: float
    median: float
    most: float
    ratio: float


def check_plot(file: Path | None) -> None:
    """**Raises** a `ZooError` if no chart could be written there, before there is one."""
    if file is None:
        return
    check_place(parameter("plot"), file)
    if find_spec("matplotlib") is None:
        raise MissingLibrary(
            f"{parameter('plot')} needs matplotlib, which is not installed: run `pip install "
            "matplotlib`."
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
        labels = ["not run" if value is None else f"{value:.2f}" for value in values]
        axes.bar_label(drawn, labels, padding=3, fontsize=8)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_title(title)
    chart.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    if mark is not None:
        axes.axvline(mark, color="gray", linewidth=0.8)
    return chart


def draw_times(
    title: str, rows: Sequence[TimedRow], products: float | None, busy: str = ""
) -> Figure:
    """Milliseconds of a run of each file: a bar to the median, and a line from the fastest to the
    95th percentile.

    **Arguments:** `products` are the milliseconds of the first file's matrix products alone, at
    which a line is drawn; None if it has none. `busy` says that the machine had more to do.
    """
    from matplotlib.figure import Figure

    chart = Figure((WIDE, 1.6 + 0.62 * len(rows)), layout="constrained")
    axes = chart.subplots()
    for place, row in enumerate(rows):
        axes.barh(place, row.median, 0.42, color=BAR)
        axes.plot([row.fastest, row.most], [place, place], color=FAINT, linewidth=2)
        caption = f"{milliseconds(row.median)} ms, {row.ratio:.2f} of the first"
        caption = f"{milliseconds(row.median)} ms" if place == 0 else caption
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 9}
        # Beyond the line of the products, which would cross it.
        axes.annotate(caption, (max(row.median, row.most, products or 0), place), (6, 0), **beside)
        # Above its bar, where it meets nothing however long it is.
        axes.annotate(row.name, (0, place), (0, 17), **beside)
    if products is not None:
        label = f"matrix products of the first file alone, in float32: {milliseconds(products)} ms"
        # Across the bars alone, so that it meets no name.
        places = np.arange(len(rows))
        line: dict[str, Any] = {"color": MARK, "linestyle": "--", "linewidth": 1.6, "label": label}
        axes.vlines(np.full(len(rows), products), places - 0.26, places + 0.26, **line)
        chart.legend(loc="outside lower center", fontsize=9, frameon=False)
    longest = max(max(row.median, row.most) for row in rows)
    axes.set(xlim=(0, 1.32 * longest), ylim=(len(rows) - 0.5, -0.8), yticks=[])
    axes.set_xlabel(
        "milliseconds of a run; bar: the median, line: from the fastest to 95 % of runs"
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(title, loc="left", pad=22 if busy else None)
    if busy:
        above: dict[str, Any] = {"textcoords": "offset points", "xycoords": "axes fraction"}
        axes.annotate(f"⚠ {busy}", (0, 1), (0, 7), **above, fontsize=9, color=MARK, weight="bold")
    return chart


def milliseconds(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def draw_residuals(rows: Sequence[ResidualRow]) -> Figure:
    """A row for each output: the mean error of each patch as a map, and how many of its numbers
    have an error of each magnitude.

    All share one logarithmic axis, which is that of the colours as well, and on which the largest
    error that is allowed is marked. A vector's map has a column for each of its numbers.
    """
    from matplotlib.figure import Figure

    largest = max(float(finite(row.errors).max(initial=0)) for row in rows)
    most = max(MOST_ERROR, 10 ** math.ceil(math.log10(max(largest, LEAST_ERROR))))
    chart = Figure((WIDE, 0.4 + 2.5 * len(rows)), layout="constrained")
    parts = chart.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, row in zip(parts, rows, strict=True):
        part.suptitle(f"{row.title}\n{row.verdict}", x=0.01, ha="left", fontsize=9)
        left, right = part.subplots(1, 2, width_ratios=(1, 1.7))
        draw_map(left, row, most)
        draw_magnitudes(right, row, most)
    return chart


def draw_map(axes: Axes, row: ResidualRow, most: float) -> None:
    """The mean error of each patch, in the colours of the axis."""
    means = np.clip(patch_means(row.errors, row.grid), LEAST_ERROR, most)
    shape: Literal["auto", "equal"] = "auto" if len(means) == 1 else "equal"
    axes.imshow(means, cmap=COLOURS, norm="log", clim=(LEAST_ERROR, most), aspect=shape)
    axes.set(xticks=[], yticks=[])
    kind = "one column a number" if len(means) == 1 else f"{means.shape[0]} x {means.shape[1]}"
    axes.set_xlabel(f"mean of each patch, {kind}" if len(means) > 1 else kind, fontsize=8)


def draw_magnitudes(axes: Axes, row: ResidualRow, most: float) -> None:
    """How many numbers have an error of each magnitude, and how large one may be."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    decades = round(math.log10(most / LEAST_ERROR))
    edges = np.geomspace(LEAST_ERROR, most, BARS_A_DECADE * decades + 1)
    sizes = np.clip(finite(row.errors).astype(np.float64), edges[0], edges[-1])
    shares = np.full(sizes.shape, 100 / max(row.errors.size, 1))
    axes.hist(sizes, edges.tolist(), weights=shares)
    colours = colormaps[COLOURS](LogNorm(LEAST_ERROR, most)(np.sqrt(edges[:-1] * edges[1:])))
    for bar, colour in zip(axes.patches, colours, strict=True):
        bar.set_facecolor(colour)
    place: dict[str, Any] = {
        "transform": axes.get_xaxis_transform(),
        "va": "top",
        "fontsize": 8,
        "color": MARK,
    }
    if row.allowed is None:
        axes.text(LEAST_ERROR, 0.97, " no limit for single numbers", **place)
    else:
        axes.axvline(row.allowed, color=MARK, linestyle="--", linewidth=1.4)
        axes.text(row.allowed, 0.97, f" {row.allowed:.0e} allowed", **place)
    axes.set(xscale="log", xlim=(LEAST_ERROR, most))
    axes.set_ylabel("% of numbers", fontsize=8)
    axes.set_xlabel("absolute difference, in the colours of the map", fontsize=8)
    axes.set_title(summary(row.errors, row.grid), loc="right", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def finite(errors: Float32) -> Float32:
    """Errors that are numbers, in one row."""
    return errors[np.isfinite(errors)]


def patch_means(errors: Float32, grid: Size) -> Float32:
    """[rows, columns]: the mean over the channels, of patches if there are any."""
    numbers = np.nan_to_num(errors[0], posinf=0.0)
    rows, columns = grid
    if numbers.ndim == 3:
        return numbers.mean(axis=0)
    if numbers.ndim == 2 and len(numbers) >= rows * columns:
        return numbers[len(numbers) - rows * columns :].mean(axis=1).reshape(grid)
    if numbers.ndim == 2 and numbers.shape[1] == rows * columns:
        return numbers.mean(axis=0).reshape(grid)
    return numbers.reshape(1, -1)


def summary(errors: Float32, grid: Size) -> str:
    """The largest and the mean error, and the mean of what lies before the patches."""
    words = f"largest {errors.max():.1e}, mean {errors.mean():.1e}"
    before = errors.shape[1] - grid[0] * grid[1] if errors.ndim == 3 else 0
    if before <= 0:
        return words
    first = errors[0, :before].mean()
    return f"{words}, of the {before} tokens before the patches {first:.1e}"
