"""Draw the charts of `--plot` with matplotlib: times of files, and errors of their outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zoo.artifacts.descriptions import describe_limit, describe_worst_error, passed_or_failed
from zoo.artifacts.measured import Verification
from zoo.export.precisions import Limit
from zoo.images.pixel_values import Float32, Size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_ERROR, MAX_ERROR = 1e-8, 1.0
"""Limits of the axis of errors, the same in every chart. A larger error extends the axis. Smaller
errors are counted in its first bar."""

BARS_A_DECADE = 4

WIDTH = 7.5
"""The width of a chart in inches, at which text of 9 points is legible on a page."""

COLORMAP = "viridis"
BAR, MARK, SPREAD = "#0072b2", "#d55e00", "#808080"
"""Colours of bars, limits and spreads, visible on a bright and on a dark page."""


@dataclass(frozen=True)
class TimedRow:
    """The times of one file in milliseconds, as a row of a chart.

    - `name`: the label of the row.
    - `fastest`, `median`, `p95`: the fastest time, the median, and the 95th percentile.
    - `ratio`: the median divided by the median of the first file.
    """

    name: str
    fastest: float
    median: float
    p95: float
    ratio: float


def draw_times(
    title: str, rows: Sequence[TimedRow], products: float | None, warning: str = ""
) -> Figure:
    """Draw a chart of the times of files, and return it.

    A bar shows the median of a file. A line goes from its fastest time to its 95th percentile.

    **Arguments**

    - `title`: the title of the chart.
    - `rows`: the times of each file.
    - `products`: the time in milliseconds of the first file's matrix products alone, which a dashed
      line marks. None draws no line.
    - `warning`: a text above the chart.
    """
    from matplotlib.figure import Figure

    chart = Figure((WIDTH, 1.6 + 0.62 * len(rows)), layout="constrained")
    axes = chart.subplots()
    medians, numbers = np.array([row.median for row in rows]), range(len(rows))
    spread = [[row.median - row.fastest for row in rows], [row.p95 - row.median for row in rows]]
    line: dict[str, Any] = {"ecolor": SPREAD, "elinewidth": 2}
    # A white box keeps a text legible where the line of the products crosses it.
    text: dict[str, Any] = {
        "fontsize": 9,
        "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1},
    }
    bars = axes.barh(numbers, medians, 0.42, color=BAR, xerr=np.maximum(spread, 0), error_kw=line)
    captions = [f"{milliseconds(row.median)} ms, {row.ratio:.2f} of the first" for row in rows]
    captions[0] = captions[0].partition(",")[0]
    axes.bar_label(bars, captions, padding=6, **text)
    for number, row in enumerate(rows):
        axes.text(0, number - 0.27, row.name, **text)
    if products is not None:
        label = f"matrix products of the first file alone, in float32: {milliseconds(products)} ms"
        axes.axvline(products, color=MARK, linestyle="--", label=label)
        chart.legend(loc="outside lower center", fontsize=9, frameon=False)
    axes.set(xlim=(0, 1.32 * max(max(row.median, row.p95) for row in rows)), yticks=[])
    axes.set(ylim=(len(rows) - 0.5, -0.8))
    axes.set_xlabel(
        "milliseconds of a run; bar: the median, line: from the fastest to 95 % of runs"
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(title, loc="left")
    if warning:
        style: dict[str, Any] = {"fontsize": 9, "color": MARK, "weight": "bold"}
        chart.suptitle(f"⚠ {warning}", x=0.01, ha="left", **style)
    return chart


def milliseconds(value: float) -> str:
    """Return a number as text with three significant digits, or without decimals from 100 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class ResidualRow:
    """The errors of one output of a file, as a row of a chart.

    - `title`: the names of the model, the file and the output.
    - `verdict`: whether the output passed, in words.
    - `errors`: absolute differences for one image: tokens `[1, tokens, dim]`, maps `[1, dim, rows,
      columns]`, heads `[1, heads, patches]` or vectors `[1, dim]`.
    - `grid`: the numbers of rows and columns of patches.
    - `allowed`: the largest allowed difference, or None if there is no limit for single numbers.
    """

    title: str
    verdict: str
    errors: Float32
    grid: Size
    allowed: float | None


def residual_rows(
    title: str, outputs: Mapping[str, Float32], grid: Size, verification: Verification
) -> list[ResidualRow]:
    """Return a row of a chart for each output of a verified file.

    **Arguments**

    - `title`: the names of the model and the file.
    - `outputs`: the absolute differences by output name.
    - `grid`: the numbers of rows and columns of patches.
    - `verification`: the result that contains the limit.
    """
    bound = Limit(verification.measure, verification.limit)
    rows = []
    for name, errors in outputs.items():
        items = [item for item in verification.comparisons if item.output == name]
        limit = describe_limit(verification)
        worst = f"at worst {describe_worst_error(verification, items)}, allowed {limit}"
        verdict = f"{passed_or_failed(all(map(bound.allows, items)))}: {worst}"
        allowed = bound.value if bound.measure == "max_abs" else None
        if bound.measure == "max_rel" and items and items[0].max_abs and items[0].max_rel:
            allowed = bound.value * items[0].max_abs / items[0].max_rel
        rows.append(ResidualRow(f"{title}: {name}", verdict, errors, grid, allowed))
    return rows


def draw_residuals(rows: Sequence[ResidualRow]) -> Figure:
    """Draw a map and a histogram of the errors of each output, and return the figure.

    The map shows the mean error of each patch. The map of a vector has a column for each number.
    All rows share one logarithmic axis of errors, whose colours are those of the maps. The largest
    allowed error is marked on it.
    """
    from matplotlib.figure import Figure

    largest = max(float(finite_errors(row.errors).max(initial=0)) for row in rows)
    largest_tick = max(MAX_ERROR, 10 ** math.ceil(math.log10(max(largest, MIN_ERROR))))
    chart = Figure((WIDTH, 0.4 + 2.5 * len(rows)), layout="constrained")
    parts = chart.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, row in zip(parts, rows, strict=True):
        part.suptitle(f"{row.title}\n{row.verdict}", x=0.01, ha="left", fontsize=9)
        left, right = part.subplots(1, 2, width_ratios=(1, 1.7))
        draw_map(left, row, largest_tick)
        draw_histogram(right, row, largest_tick)
    return chart


def draw_map(axes: Axes, row: ResidualRow, largest_tick: float) -> None:
    """Draw the mean error of each patch into `axes` as a map.

    `largest_tick` is the upper end of the scale of colours.
    """
    means = np.clip(patch_means(row.errors, row.grid), MIN_ERROR, largest_tick)
    is_vector = len(means) == 1
    aspect: Literal["auto", "equal"] = "auto" if is_vector else "equal"
    axes.imshow(means, cmap=COLORMAP, norm="log", clim=(MIN_ERROR, largest_tick), aspect=aspect)
    axes.set(xticks=[], yticks=[])
    size = f"mean of each patch, {means.shape[0]} x {means.shape[1]}"
    axes.set_xlabel("one column a number" if is_vector else size, fontsize=8)


def draw_histogram(axes: Axes, row: ResidualRow, largest_tick: float) -> None:
    """Draw the share of numbers with an error of each magnitude into `axes`.

    The largest allowed error is marked. `largest_tick` is the upper end of the axis of errors.
    """
    from matplotlib import colormaps

    decades = round(math.log10(largest_tick / MIN_ERROR))
    edges = np.geomspace(MIN_ERROR, largest_tick, BARS_A_DECADE * decades + 1)
    errors = np.clip(finite_errors(row.errors).astype(np.float64), edges[0], edges[-1])
    counts, _ = np.histogram(errors, edges)
    centers = (np.arange(len(counts)) + 0.5) / len(counts)  # of the bars on the logarithmic axis
    shares = 100 * counts / max(row.errors.size, 1)
    colors = colormaps[COLORMAP](centers)
    axes.bar(edges[:-1], shares, np.diff(edges), align="edge", color=colors)
    words, position = " no limit for single numbers", MIN_ERROR
    if row.allowed is not None:
        words, position = f" {row.allowed:.0e} allowed", row.allowed
        axes.axvline(row.allowed, color=MARK, linestyle="--", linewidth=1.4)
    transform = axes.get_xaxis_transform()
    axes.text(position, 0.97, words, transform=transform, va="top", fontsize=8, color=MARK)
    axes.set(xscale="log", xlim=(MIN_ERROR, largest_tick))
    axes.set_ylabel("% of numbers", fontsize=8)
    axes.set_xlabel("absolute difference, in the colours of the map", fontsize=8)
    axes.set_title(describe_errors(row.errors, row.grid), loc="right", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def finite_errors(errors: Float32) -> Float32:
    """Return the errors that are neither infinite nor NaN, as a vector."""
    return errors[np.isfinite(errors)]


def patch_means(errors: Float32, grid: Size) -> Float32:
    """Return the mean error of each patch, `[rows, columns]`, from the errors of one image.

    `errors` are as in `ResidualRow`, and `grid` is (rows, columns). The mean is over the channels
    or heads. Tokens before the patches are left out. A map keeps its own rows and columns. The
    errors of a vector, which has no patches, are returned as `[1, dim]`. NaN and infinity count as
    0.
    """
    numbers = np.nan_to_num(errors[0], posinf=0.0)
    count = math.prod(grid)
    if numbers.ndim == 3:
        return numbers.mean(axis=0)
    if numbers.ndim == 2 and len(numbers) >= count:
        return numbers[len(numbers) - count :].mean(axis=1).reshape(grid)
    if numbers.ndim == 2 and numbers.shape[1] == count:
        return numbers.mean(axis=0).reshape(grid)
    return numbers.reshape(1, -1)


def describe_errors(errors: Float32, grid: Size) -> str:
    """Return the largest and the mean error in words.

    The mean of the tokens before the patches, such as the class token, is added if there are any.
    `grid` is (rows, columns) of patches.
    """
    text = f"largest {errors.max():.1e}, mean {errors.mean():.1e}"
    prefix_tokens = errors.shape[1] - math.prod(grid) if errors.ndim == 3 else 0
    if prefix_tokens <= 0:
        return text
    first = errors[0, :prefix_tokens].mean()
    return f"{text}, of the {prefix_tokens} tokens before the patches {first:.1e}"
