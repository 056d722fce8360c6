"""The page about performance, its pictures, README's table and the first page's numbers, from what
`peers.py` measured.

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
FIRST = "dinov3_vits16"
"""The model that README shows."""

USUAL = ("batch 1, 2 threads", "batch 1, 1 thread")
"""What pictures and README show: the first of these that was measured."""

FILLED = (ROOT / "README.md", DOCS / "index.md")
"""Pages that show some of the numbers."""

HIDDEN = ("zoo build", "zoo export")
"""Commands that are no file."""

EXPORTED = (
    ("seconds", "seconds", ".1f"),
    ("of processors", "processors", ".1f"),
    ("peak MB", "peak_mb", ",.0f"),
    ("file, MB", "mb", ".1f"),
    ("nodes", "nodes", ","),
    ("error", "max_abs", ".1e"),
    ("cosine", "cosine", ".5f"),
)
"""Columns: their headings, the fields, and the forms of numbers."""

Row = dict[str, Any]


def tables(content: Row) -> Iterator[str]:
    """The page, part by part."""
    yield INTRODUCTION
    yield from about(content)
    if not content["files"]:
        return
    yield "\n## Speed\n\n" + SPEED
    yield f"![{SHOWN}]({IMAGES}/performance.png)\n"
    for model, found in content["speed"].items():
        yield from speed_table(model, found)
    if rows := content.get("jit"):
        yield from jit_section(rows)
    yield "\n## Export\n\n" + EXPORT
    for model, found in content["files"].items():
        yield from export_table(model, found)


def about(content: Row) -> Iterator[str]:
    """Where and with what it was measured."""
    if not content["files"]:
        yield "**Nothing has been measured yet.**"
        return
    if content["note"]:
        yield f"**{content['note']}**\n"
    versions = ", ".join(f"{name} {told}" for name, told in content["versions"].items())
    yield f"Measured on {content['date']}: {content['machine']}; {versions}."
    for peer, told in content["peers"].items():
        yield f"The environment of {peer} has {told}."


def speed_table(model: str, found: Row) -> Iterator[str]:
    """A row a file, a column for each batch and number of threads."""
    files = [each["files"] for each in found.values()]
    rows = [
        [name, *(number(each.get(name, {}).get("to_products"), ".2f") for each in files)]
        for name in dict.fromkeys(chain(*files))
    ]
    rows.append(["products, ms", *(f"{each['products_ms']:.1f}" for each in found.values())])
    yield f"**{model}**\n"
    yield from table(["fastest run over its products", *found], rows)


def export_table(model: str, found: Row) -> Iterator[str]:
    """A row for each command and file."""
    made = {name: row for name, row in found.items() if "failed" not in row}
    yield f"**{model}**\n"
    yield from table(
        ["", *(heading for heading, _, _ in EXPORTED)],
        [
            [name, *(number(row.get(key), form) for _, key, form in EXPORTED)]
            for name, row in made.items()
        ],
    )
    for name, row in found.items():
        if "failed" in row:
            yield f"{name} failed: {row['failed'].replace('`', '')}\n"


def render(content: Row) -> str:
    """The page as Markdown."""
    return "\n".join(tables(content)).rstrip() + "\n"


def bars(title: str, groups: Mapping[str, Mapping[str, float | None]]) -> Figure:
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


def speeds_picture(content: Row) -> Figure:
    """The ratios of every model."""
    usual = shown(content["speed"])
    groups = {
        model: {name: row["to_products"] for name, row in found[usual]["files"].items()}
        for model, found in content["speed"].items()
        if usual in found
    }
    chart = bars(f"Time of a run, {usual}: shorter is better", groups)
    chart.axes[0].set_xlabel("1 is the time of the network's matrix products alone, in float32")
    return chart


def first_picture(content: Row) -> Figure:
    """README's: for one model how long each file runs, and what each export takes."""
    usual = shown(content["speed"])
    files, speed = content["files"][FIRST], content["speed"][FIRST][usual]["files"]
    names = [name for name in speed if "nodes" in files.get(name, {})]
    exports = {name: files[name] for name in names} | {"zoo, fused": files["zoo export"]}
    exports = {name: row for name, row in exports.items() if row.get("processors")}
    panels = (
        ("milliseconds a picture", "{:.1f}", {k: speed[k]["fastest_ms"] for k in names}),
        ("seconds of export", "{:.0f}", {k: row["processors"] for k, row in exports.items()}),
        ("MB of memory to export", "{:,.0f}", {k: row["peak_mb"] for k, row in exports.items()}),
    )
    chart = Figure((10, 3.2), layout="constrained")
    for axes, (label, form, found) in zip(chart.subplots(1, len(panels)), panels, strict=True):
        colors = ["#0072b2" if name.startswith("zoo") else "#999999" for name in found]
        drawn = axes.barh(list(found), list(found.values()), color=colors)
        axes.bar_label(drawn, [form.format(value) for value in found.values()], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    chart.suptitle(f"{FIRST}, one picture, {usual.partition(', ')[2]}: shorter is better")
    return chart


def shown(speed: Row) -> str:
    """The batch and the number of threads that pictures and README show."""
    return next(usual for usual in USUAL if usual in speed[FIRST])


def readme_table(content: Row) -> Iterator[str]:
    """One model, one row for each exporter."""
    if FIRST not in content["speed"]:
        yield "Nothing has been measured yet."
        return
    usual = shown(content["speed"])
    files, speed = content["files"][FIRST], content["speed"][FIRST][usual]["files"]
    rows = []
    for name, row in files.items():
        if name in HIDDEN or "nodes" not in row or "failed" in row:
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
    yield f"Measured on {content['date']}: {content['machine']}, {usual}. {content['note'] or ''}"


def fused(row: Row) -> str:
    """The operators of attention that a file has."""
    return ", ".join(f"{count} `{name}`" for name, count in row.get("fused", {}).items()) or "none"


def headline(content: Row) -> str:
    """A sentence on what an export takes, and one on how long its files run."""
    usual = shown(content["speed"])
    files, speed = content["files"][FIRST], content["speed"][FIRST][usual]["files"]
    ours, torch = files["zoo export"], files["torch, opset 23"]
    runs = [f"{speed[name]['fastest_ms']:.0f} ms" for name in ("zoo, fused", "zoo, int8")]
    return (
        f"DINOv3 ViT-S/16 is exported in {ours['processors']:.0f} seconds of processor time and "
        f"{ours['peak_mb']:,.0f} MB\nof memory, where PyTorch takes {torch['processors']:.0f} "
        f"seconds and {torch['peak_mb']:,.0f} MB. One picture takes {runs[0]} in float32\n"
        f"and {runs[1]} in int8, with {usual.partition(', ')[2]}. The files of PyTorch's exporter "
        f"take {speed['torch, opset 23']['fastest_ms']:.0f} ms."
    )


def with_numbers(page: str, content: Row) -> str:
    """A page with the numbers of now between its marks."""
    page = with_part(page, "performance", readme_table(content))
    return with_part(page, "headline", [headline(content)]) if FIRST in content["speed"] else page


INTRODUCTION = """# Performance

How fast our files are beside those of other exporters, and how long an export takes.
`python benchmarks/peers.py --json benchmarks/results/performance.json` measures it, and
`python benchmarks/performance.py benchmarks/results/performance.json` writes this page.
"""

SPEED = """The fastest run of each file, divided by the fastest run of the network's matrix
products alone, as ONNX Runtime multiplies them in float32. A ratio of 1.10 means that the products
take ten parts of the time and everything else takes one. int8 multiplies other numbers, so that it
can be below 1. The files of a table took turns in one process, on ONNX Runtime's CPU provider, with
images of 224 x 224 pixels. What each operator takes is
printed by `python benchmarks/integers.py operators`.
"""

EXPORT = """Each file was made by a process of its own from the same checkpoint of random weights.
`zoo export` makes the file at opset 23 without checking it, as the others do; `zoo build` makes all
files of a folder and checks them. *Of processors* are the seconds of all processors together, which
a busy machine changes less. The error is the largest absolute difference of
`last_hidden_state` from the network in JAX, on the photograph. PyTorch and Optimum export
transformers' network, jax2onnx and the zoo the one in JAX.
"""

INK = "#808080"
"""Of what is no bar: grey that is read on a bright page and on a dark one."""

COLOURS = dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
)

SHOWN = "Time of each file over that of its matrix products"

SIZES = ("small", "realistic")
"""Of each program's inputs."""

COLUMNS = (
    ("jit, ms", "jit_ms", ".3f"),
    ("file, ms", "file_ms", ".3f"),
    ("nodes", "nodes", ""),
    ("conversion, s", "seconds", ".1f"),
)
"""Of each program at the larger size: headings, fields, and the forms of numbers."""

SHOWN_JIT = "Time of files over that of jax.jit, the median of each group"

BESIDE = """Functions whose parameters are closed over, converted with the usual options, beside the
`jax.jit` of the same function, at two sizes of inputs: `python benchmarks/against_jit.py --json
benchmarks/results/performance.json`. File and function took turns in one process on two threads; a
ratio is the fastest run of the file over the fastest run of XLA's. XLA is given arrays that are its
own already.
It was measured with ONNX Runtime 1.32 on two cores.
"""

LEFT = """What is far above 1 is so for one of these reasons.

- **A loop over few numbers.** ONNX Runtime takes a loop node by node: 0.3 µs for a node whatever it
  computes, and 1 µs for a step. XLA compiles the step, which then takes 10 to 100 ns. What does not
  depend on the step before is computed for all steps at once, and a loop of few nodes is written
  out. More is not done about it: loops and small recurrences may be slow, since a rewrite of nodes
  does not change what a node costs, and what runs for long in a network are its products. What is
  left is recurrences (`discounted returns`, `kalman filter`): that of an equation of three numbers
  is 55 nodes or more, and 17 µs for a step (those of `lorenz`, `hunters`, `euler` and `odeint`). A
  step of `collatz` is 8 nodes and 2 µs, where XLA takes 60 ns; `edit distance` has 1,600 steps of a
  loop in a loop; a step of `ctc loss` has three sums of exponentials of 9 nodes each, which keep
  the digits of `logaddexp`.
- **Stencils of small arrays.** `heat equation` adds up 1,024 numbers 12 times in a step, for which
  XLA takes 1 µs altogether, as all is one loop over the array; a node takes 0.5 µs. `descent of
  energy` is 30 such nodes.
- **Decompositions.** XLA calls LAPACK, which is compiled. A file has a loop of columns, of which a
  step is 6 nodes (`cholesky`), 8 (`solve`), 19 (`lu`) or 23 (`qr`), in 0.3 µs each: that alone is
  three to five times what LAPACK takes for the whole of a matrix of 32 rows. `eigh` and `svd` take
  some twelve steps of all Jacobi's rotations at once, which are 70 nodes with ten products of
  matrices, 50 µs. What `svd`, `lstsq` and `pinv` take besides is a QR decomposition.
- **`Where`.** It takes 1.0 ms to choose between two arrays of 150,000 numbers by an irregular
  condition, and an addition of them takes 0.03 ms. A search in a table, as `jnp.interp` and
  `jnp.histogram` do it, is mostly such choices.
- **Draws.** A hash of Threefry is 100 nodes, five for each of its 20 rounds, so that the least draw
  takes 40 µs. Keys that are made one of another (`keys of a loop`) take that for each step. Those
  that reject draw for all lanes until the last is accepted, as XLA's vectorised loop does; XLA on a
  CPU takes the lanes of `gamma` one after the other.
"""


def by_group(rows: Sequence[Row]) -> dict[str, list[list[float]]]:
    """The ratios of each group at each size."""
    return {
        group: [[r["ratio"] for r in rows if key(r)[::2] == (group, size)] for size in SIZES]
        for group in dict.fromkeys(row["group"] for row in rows)
    }


def jit_section(rows: Sequence[Row]) -> Iterator[str]:
    """The groups, then every program."""
    yield f"\n## Beside jax.jit\n\n{BESIDE}"
    yield f"![{SHOWN_JIT}](images/against_jit.png)\n"
    groups = by_group(rows)
    groups["all"] = [[*chain(*each)] for each in zip(*groups.values(), strict=True)]
    headings = chain(*((f"{size}, median", f"{size}, most") for size in SIZES))
    shown = (
        [group, str(len(found[0])), *chain(*((f"{median(x):.2f}", f"{max(x):.1f}") for x in found))]
        for group, found in groups.items()
    )
    yield from table(["group", "programs", *headings], shown)
    yield LEFT
    yield f"Times, nodes and conversion are those of the {SIZES[1]} size.\n"
    yield from table(
        ["program", *SIZES, *(heading for heading, _, _ in COLUMNS)],
        [
            [
                f"{large['group']}: {large['name']}",
                *(number(row["ratio"], ".2f") for row in (small, large)),
                *(number(large[field], form) for _, field, form in COLUMNS),
            ]
            for small, large in zip(rows[::2], rows[1::2], strict=True)
        ],
    )


def key(row: Row) -> tuple[str, str, str]:
    return row["group"], row["name"], row["size"]


def jit_picture(rows: Sequence[Row]) -> Figure:
    """The medians of each group, in logarithms."""
    groups = {
        group: dict(zip(SIZES, map(median, found), strict=True))
        for group, found in by_group(rows).items()
    }
    chart = bars(SHOWN_JIT, groups)
    chart.axes[0].set_xscale("log")
    return chart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, metavar="FILE")
    path = parser.parse_args().json
    content = json.loads(path.read_text())
    pictures = DOCS / IMAGES
    with rc_context(COLOURS):
        drawn = {"performance": speeds_picture(content), "first": first_picture(content)}
        if rows := content.get("jit"):
            drawn["against_jit"] = jit_picture(rows)
        for name, chart in drawn.items():
            chart.savefig(pictures / f"{name}.png", transparent=True)
    (DOCS / "performance.md").write_text(render(content))
    for page in FILLED:
        page.write_text(with_numbers(page.read_text(), content))


if __name__ == "__main__":
    main()
