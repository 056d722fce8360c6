"""Write the page about performance, its pictures, and the numbers in README and on the first page,
from the results of `peers.py` and `against_jit.py`.

python benchmarks/performance.py benchmarks/results/performance.json
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.pages import number, table, with_part

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
IMAGES = "images"
README_MODEL = "dinov3_vits16"
"""Model that README shows."""

USUAL_SETTINGS = ("batch 1, 2 threads", "batch 1, 1 thread")
"""Settings that pictures and README show: the first of these that was measured."""

PAGES_WITH_NUMBERS = (ROOT / "README.md", DOCS / "index.md")
"""Pages that contain some of the numbers."""

COMMANDS = ("zoo build", "zoo export")
"""Rows that are commands and not files."""

EXPORT_COLUMNS = (
    ("seconds", "seconds", ".1f"),
    ("of processors", "processors", ".1f"),
    ("peak MB", "peak_mb", ",.0f"),
    ("file, MB", "mb", ".1f"),
    ("nodes", "nodes", ","),
    ("error", "max_abs", ".1e"),
    ("cosine", "cosine", ".5f"),
)
"""Columns of the table of exports: heading, field, and format of the number."""

Row = dict[str, Any]


def tables(content: Row) -> Iterator[str]:
    """Yield the parts of the page."""
    yield INTRODUCTION
    yield from measurement_details(content)
    if not content["files"]:
        return
    yield "\n## Speed\n\n" + SPEED
    yield f"![{SPEED_TITLE}]({IMAGES}/performance.png)\n"
    for model, measurements in content["speed"].items():
        yield from speed_table(model, measurements)
    if rows := content.get("jit"):
        yield from jit_section(rows)
    yield "\n## Export\n\n" + EXPORT
    for model, measurements in content["files"].items():
        yield from export_table(model, measurements)


def measurement_details(content: Row) -> Iterator[str]:
    """Yield where and with which versions the numbers were measured."""
    if not content["files"]:
        yield "**Nothing has been measured yet.**"
        return
    if content["note"]:
        yield f"**{content['note']}**\n"
    versions = ", ".join(f"{name} {value}" for name, value in content["versions"].items())
    yield f"Measured on {content['date']}: {content['machine']}; {versions}."
    for peer, value in content["peers"].items():
        yield f"The environment of {peer} has {value}."


def speed_table(model: str, measurements: Row) -> Iterator[str]:
    """Yield a table with a row for each file and a column for each batch size and number of
    threads."""
    files = [files_of_setting["files"] for files_of_setting in measurements.values()]
    rows = [
        [
            name,
            *(
                number(files_of_setting.get(name, {}).get("to_products"), ".2f")
                for files_of_setting in files
            ),
        ]
        for name in dict.fromkeys(chain(*files))
    ]
    rows.append(
        [
            "products, ms",
            *(
                f"{files_of_setting['products_ms']:.1f}"
                for files_of_setting in measurements.values()
            ),
        ]
    )
    yield f"**{model}**\n"
    yield from table(["fastest run over its products", *measurements], rows)


def export_table(model: str, rows_of_files: Row) -> Iterator[str]:
    """Yield a table with a row for each command and file."""
    successful = {name: row for name, row in rows_of_files.items() if "failed" not in row}
    yield f"**{model}**\n"
    yield from table(
        ["", *(heading for heading, _, _ in EXPORT_COLUMNS)],
        [
            [name, *(number(row.get(key), form) for _, key, form in EXPORT_COLUMNS)]
            for name, row in successful.items()
        ],
    )
    for name, row in rows_of_files.items():
        if "failed" in row:
            yield f"{name} failed: {row['failed'].replace('`', '')}\n"


def render(content: Row) -> str:
    """Return the page as Markdown."""
    return "\n".join(tables(content)).rstrip() + "\n"


def draw_bars(title: str, groups: Mapping[str, Mapping[str, float | None]]) -> Figure:
    """Draw values by group and series as horizontal bars, with a line at 1.

    A value of None is labelled as not run.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    thickness = 0.8 / len(series)
    chart = Figure((9, 1.5 + 0.25 * len(series) * len(groups)), layout="constrained")
    axes = chart.subplots()
    for index, name in enumerate(series):
        values = {row: group[name] for row, group in enumerate(groups.values()) if name in group}
        positions = [row + (index + 0.5) * thickness - 0.4 for row in values]
        drawn = axes.barh(positions, [x or 0 for x in values.values()], thickness, label=name)
        labels = ["not run" if value is None else f"{value:.2f}" for value in values.values()]
        axes.bar_label(drawn, labels, padding=3, fontsize=8)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_title(title)
    axes.axvline(1, color="gray", linewidth=0.8)
    chart.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return chart


def draw_speeds(content: Row) -> Figure:
    """Draw the ratios of all models."""
    setting = shown_settings(content["speed"])
    groups = {
        model: {name: row["to_products"] for name, row in measurements[setting]["files"].items()}
        for model, measurements in content["speed"].items()
        if setting in measurements
    }
    chart = draw_bars(f"Time of a run, {setting}: shorter is better", groups)
    chart.axes[0].set_xlabel("1 is the time of the network's matrix products alone, in float32")
    return chart


def draw_readme_picture(content: Row) -> Figure:
    """Draw README's picture for one model: the time of each file, and the cost of each export."""
    setting = shown_settings(content["speed"])
    files, speed = content["files"][README_MODEL], content["speed"][README_MODEL][setting]["files"]
    names = [name for name in speed if "nodes" in files.get(name, {})]
    exports = {name: files[name] for name in names} | {"zoo, fused": files["zoo export"]}
    exports = {name: row for name, row in exports.items() if row.get("processors")}
    panels = (
        ("milliseconds a picture", "{:.1f}", {k: speed[k]["fastest_ms"] for k in names}),
        ("seconds of export", "{:.0f}", {k: row["processors"] for k, row in exports.items()}),
        ("MB of memory to export", "{:,.0f}", {k: row["peak_mb"] for k, row in exports.items()}),
    )
    chart = Figure((10, 3.2), layout="constrained")
    for axes, (label, form, values) in zip(chart.subplots(1, len(panels)), panels, strict=True):
        colors = ["#0072b2" if name.startswith("zoo") else "#999999" for name in values]
        drawn = axes.barh(list(values), list(values.values()), color=colors)
        axes.bar_label(drawn, [form.format(value) for value in values.values()], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    chart.suptitle(f"{README_MODEL}, one picture, {setting.partition(', ')[2]}: shorter is better")
    return chart


def shown_settings(speed: Row) -> str:
    """Return the batch size and the number of threads that pictures and README show."""
    return next(setting for setting in USUAL_SETTINGS if setting in speed[README_MODEL])


def readme_table(content: Row) -> Iterator[str]:
    """Yield a table of one model with a row for each exporter."""
    if README_MODEL not in content["speed"]:
        yield "Nothing has been measured yet."
        return
    setting = shown_settings(content["speed"])
    files, speed = content["files"][README_MODEL], content["speed"][README_MODEL][setting]["files"]
    rows = []
    for name, row in files.items():
        if name in COMMANDS or "nodes" not in row or "failed" in row:
            continue
        cost = files["zoo export"] if name == "zoo, fused" else row
        rows.append(
            [
                name,
                number(row["nodes"], ","),
                fused(row),
                number(speed.get(name, {}).get("fastest_ms"), ".1f"),
                number(row["mb"], ".0f"),
                number(cost.get("processors"), ".0f"),
                number(cost.get("peak_mb"), ",.0f"),
            ]
        )
    headings = ["file", "nodes", "attention", "ms a picture", "MB", "s to export", "MB to export"]
    yield from table(headings, rows)
    yield f"Measured on {content['date']}: {content['machine']}, {setting}. {content['note'] or ''}"


def fused(row: Row) -> str:
    """Return the fused attention operators of a file as text."""
    return ", ".join(f"{count} `{name}`" for name, count in row.get("fused", {}).items()) or "none"


def headline(content: Row) -> str:
    """Return a sentence about the cost of an export and one about the speed of its files."""
    usual = shown_settings(content["speed"])
    files, speed = content["files"][README_MODEL], content["speed"][README_MODEL][usual]["files"]
    export, torch = files["zoo export"], files["torch, opset 23"]
    runs = [f"{speed[name]['fastest_ms']:.0f} ms" for name in ("zoo, fused", "zoo, int8")]
    return (
        f"DINOv3 ViT-S/16 is exported in {export['processors']:.0f} seconds of processor time and "
        f"{export['peak_mb']:,.0f} MB\nof memory, where PyTorch takes {torch['processors']:.0f} "
        f"seconds and {torch['peak_mb']:,.0f} MB. One picture takes {runs[0]} in float32\n"
        f"and {runs[1]} in int8, with {usual.partition(', ')[2]}. The files of PyTorch's exporter "
        f"take {speed['torch, opset 23']['fastest_ms']:.0f} ms."
    )


def with_numbers(page: str, content: Row) -> str:
    """Return a page with the current numbers between its markers."""
    page = with_part(page, "performance", readme_table(content))
    return (
        with_part(page, "headline", [headline(content)])
        if README_MODEL in content["speed"]
        else page
    )


INTRODUCTION = """# Performance

This page compares the speed of our files with the speed of the files of other exporters. It also
compares the time and the memory of an export. `python benchmarks/peers.py --json
benchmarks/results/performance.json` measures the numbers, and `python benchmarks/performance.py
benchmarks/results/performance.json` writes this page.
"""

SPEED = """Each number is the fastest run of a file, divided by the fastest run of the matrix
products of the network alone in ONNX Runtime and float32. For example, a ratio of 1.10 means that
all other operators take a tenth of the time of the matrix products. int8 files multiply integers,
so their ratio can be below 1.

The files of a table ran in turns in one process, with the CPU provider of ONNX Runtime, on images
of 224 x 224 pixels. `python benchmarks/integers.py operators` prints the time of each operator.
"""

EXPORT = """A separate process wrote each file. All files have the weights of the same checkpoint
with random weights.

- `zoo export` writes the file at opset 23. It does not verify the file, because the other exporters
  do not verify their files. `zoo build` writes and verifies all files of a folder.
- *seconds* is the elapsed time. *of processors* is the total processor time of all cores, which
  depends less on the load of the machine.
- *error* is the largest absolute difference of `last_hidden_state` from the network in JAX, on the
  photograph.
- PyTorch and Optimum export the network of transformers. jax2onnx and the zoo export the network in
  JAX.
"""

GREY = "#808080"
"""Colour of text and axes: a grey that is readable on a light and on a dark page."""

COLOURS = dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY
)

SPEED_TITLE = "Time of each file, divided by that of its matrix products"

SIZES = ("small", "realistic")
"""Names of the two sizes of each program's inputs."""

JIT_COLUMNS = (
    ("jit, ms", "jit_ms", ".3f"),
    ("file, ms", "file_ms", ".3f"),
    ("nodes", "nodes", ""),
    ("conversion, s", "seconds", ".1f"),
)
"""Columns of each program at the larger size: heading, field, and format of the number."""

JIT_TITLE = "Time of files over that of jax.jit, the median of each group"

VS_JIT = """These tables compare the files of functions with `jax.jit` of the same functions, for
two sizes of the inputs. The parameters of the functions are constants, and the functions were
converted with the default options. A ratio is the fastest run of the file, divided by the fastest
run of XLA.
The file and the function ran in turns in one process with two threads, with ONNX Runtime 1.32 on
two cores. The inputs of XLA were JAX arrays, which need no conversion. `python
benchmarks/against_jit.py --json benchmarks/results/performance.json` measures the ratios.
"""

JIT_REASONS = """There are several reasons for a ratio that is much larger than 1:

- **Loops over few numbers.** ONNX Runtime executes a loop node by node. This takes 1 µs for each
  step and at least 0.3 µs for each node. XLA compiles the step, which then takes 10 to 100 ns. The
  converter moves all computations that do not depend on the previous step out of the loop, and
  unrolls a loop with few nodes. It does not optimize loops further, because this would not change
  the time of a node, and a network spends most of its time in matrix products. For this reason,
  recurrences are slow:
  - `discounted returns` and `kalman filter` are recurrences with few nodes.
  - A step of a differential equation with three numbers has at least 55 nodes and takes 17 µs
    (`lorenz`, `hunters`, `euler` and `odeint`).
  - A step of `collatz` has 8 nodes and takes 2 µs. XLA takes 60 ns.
  - `edit distance` has 1,600 steps of a loop inside a loop.
  - A step of `ctc loss` has three sums of exponentials with 9 nodes each, which have the same
    precision as `logaddexp`.
- **Stencils on small arrays.** A step of `heat equation` adds 1,024 numbers 12 times. XLA compiles
  the step to a single loop over the array, which takes 1 µs. In the file, each node takes 0.5 µs.
  `descent of energy` has 30 such nodes.
- **Decompositions.** XLA calls compiled functions of LAPACK. The file has a loop over the columns.
  A step has 6 nodes (`cholesky`), 8 nodes (`solve`), 19 nodes (`lu`) or 23 nodes (`qr`), and each
  node takes 0.3 µs. For a matrix with 32 rows, these nodes alone take three to five times as long
  as LAPACK. `eigh` and `svd` need about twelve steps. A step computes all Jacobi rotations at once,
  with 70 nodes and ten matrix products, and takes 50 µs. `svd`, `lstsq` and `pinv` also need a QR
  decomposition.
- **`Where`.** A selection between two arrays of 150,000 numbers with an irregular condition takes
  1.0 ms. The addition of these arrays takes 0.03 ms. A search in a table (`jnp.interp`,
  `jnp.histogram`) consists mostly of selections.
- **Random numbers.** A Threefry hash has 100 nodes, which are five nodes for each of the 20 rounds.
  For this reason, the smallest call takes 40 µs. If each key is computed from the previous key
  (`keys of a loop`), each step takes 40 µs. Rejection sampling continues for all lanes until the
  last lane is accepted, as in the vectorised loop of XLA. On a CPU, XLA computes the lanes of
  `gamma` one after the other.
"""


def by_group(rows: Sequence[Row]) -> dict[str, list[list[float]]]:
    """Return the ratios of each group at each size."""
    return {
        group: [[r["ratio"] for r in rows if key(r)[::2] == (group, size)] for size in SIZES]
        for group in dict.fromkeys(row["group"] for row in rows)
    }


def jit_section(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of groups and the table of all programs."""
    yield f"\n## Compared with jax.jit\n\n{VS_JIT}"
    yield f"![{JIT_TITLE}](images/against_jit.png)\n"
    groups = by_group(rows)
    groups["all"] = [[*chain(*ratios)] for ratios in zip(*groups.values(), strict=True)]
    headings = chain(*((f"{size}, median", f"{size}, most") for size in SIZES))
    group_rows = (
        [
            group,
            str(len(ratios_by_size[0])),
            *chain(*((f"{median(x):.2f}", f"{max(x):.1f}") for x in ratios_by_size)),
        ]
        for group, ratios_by_size in groups.items()
    )
    yield from table(["group", "programs", *headings], group_rows)
    yield JIT_REASONS
    yield f"The last four columns are for the {SIZES[1]} size.\n"
    yield from table(
        ["program", *SIZES, *(heading for heading, _, _ in JIT_COLUMNS)],
        [
            [
                f"{large['group']}: {large['name']}",
                *(number(row["ratio"], ".2f") for row in (small, large)),
                *(number(large[field], form) for _, field, form in JIT_COLUMNS),
            ]
            for small, large in zip(rows[::2], rows[1::2], strict=True)
        ],
    )


def key(row: Row) -> tuple[str, str, str]:
    return row["group"], row["name"], row["size"]


def draw_jit_picture(rows: Sequence[Row]) -> Figure:
    """Draw the median of each group on a logarithmic scale."""
    groups = {
        group: dict(zip(SIZES, map(median, ratios_by_size), strict=True))
        for group, ratios_by_size in by_group(rows).items()
    }
    chart = draw_bars(JIT_TITLE, groups)
    chart.axes[0].set_xscale("log")
    return chart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, metavar="FILE")
    path = parser.parse_args().json
    content = json.loads(path.read_text())
    pictures = DOCS / IMAGES
    with rc_context(COLOURS):
        drawn = {"performance": draw_speeds(content), "first": draw_readme_picture(content)}
        if rows := content.get("jit"):
            drawn["against_jit"] = draw_jit_picture(rows)
        for name, chart in drawn.items():
            chart.savefig(pictures / f"{name}.png", transparent=True)
    (DOCS / "performance.md").write_text(render(content))
    for page in PAGES_WITH_NUMBERS:
        page.write_text(with_numbers(page.read_text(), content))


if __name__ == "__main__":
    main()
