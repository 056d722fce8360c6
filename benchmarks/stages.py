"""An attention that is written by hand, drawn node by node on its way into a file.

`benchmarks/pictures.py` draws it for README; `notebooks/4_inside_the_converter.ipynb` tells more.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import converter

STAGES = {
    "trace": "JAX's trace",
    "recognise": "a softmax is recognised",
    "attend": "an attention is recognised",
}
"""Passes after which the graph is drawn, and what is written above it."""

BLUE = ("dot_general", "einsum", "MatMul")
RED = ("softmax", "attention", "Attention")
GREY = ("reshape", "slice", "squeeze", "transpose", "convert", "broadcast", "Split")
"""Products, what was recognised, and what only moves numbers. The rest belongs to the softmax."""

LINE = "#808080"
"""Read on a bright page and on a dark one."""

WIDE, HIGH = 2.5, 0.34
"""Inches of a graph, and of a row of it."""


@dataclass(frozen=True)
class Drawn:
    """A node: what it does, and the names of its operands and results."""

    op: str
    operands: Sequence[str]
    results: Sequence[str]


def attention(x: jax.Array, parameters: Mapping[str, jax.Array]) -> jax.Array:
    """Two heads, [tokens, width] to [tokens, width]."""
    tokens, width = x.shape
    qkv = (x @ parameters["qkv"]).reshape(tokens, 3, 2, width // 2)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    scores = jnp.einsum("qhc,khc->hqk", q, k) / jnp.sqrt(width // 2)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("hqk,khc->qhc", weights, v).reshape(tokens, width)
    return mixed @ parameters["out"]


def network(parameters: Mapping[str, jax.Array], x: jax.Array) -> jax.Array:
    """The same of a batch."""
    return jax.vmap(attention, in_axes=(0, None))(x, parameters)


def stages() -> dict[str, list[Drawn]]:
    """The graph after some passes, and in the file, by what is written above it."""
    random = np.random.default_rng(0)
    shapes = {"qkv": (8, 24), "out": (8, 8)}
    parameters = {k: random.normal(size=v).astype(np.float32) for k, v in shapes.items()}
    with TemporaryDirectory() as folder:
        os.environ["CONVERTER_DUMP"] = folder
        export = converter.to_onnx(network, [("batch", 5, 8)], params=parameters, opset=23)
        del os.environ["CONVERTER_DUMP"]
        found = {path.stem[3:]: path.read_text() for path in Path(folder).glob("*.txt")}
    drawn = {title: list(read_graph(found[name])) for name, title in STAGES.items()}
    return drawn | {"the ONNX file": list(read_model(export.model))}


def read_graph(text: str) -> Iterator[Drawn]:
    """The nodes of a graph as the converter writes it down."""
    for line in text.splitlines():
        if found := re.match(r"  (%.*) = (\w+)\((.*?)\)", line):
            op = re.sub("_(in_dim|element_type)$", "", found[2])
            results = re.findall(r"%(\w+):", found[1])
            yield Drawn(op, re.findall(r"%([\w.]+)", found[3]), results)


def read_model(model: ir.Model) -> Iterator[Drawn]:
    """The nodes of an ONNX model."""
    for node in model.graph:
        operands = [value.name or "" for value in node.inputs if value]
        yield Drawn(node.op_type, operands, [value.name or "" for value in node.outputs])


def draw_stages() -> Figure:
    """The graphs beside each other, each node below those that it reads from."""
    graphs = stages()
    chart = Figure(layout="constrained")
    panels = chart.subplots(1, len(graphs), sharey=True)
    rows = max(draw_graph(axes, *each) for axes, each in zip(panels, graphs.items(), strict=True))
    panels[0].set_ylim(rows + 0.5, 0.5)
    chart.set_size_inches(WIDE * len(graphs), HIGH * rows + 0.7)
    return chart


def draw_graph(axes: Axes, title: str, nodes: Sequence[Drawn]) -> int:
    """Draw one graph; how many rows it has."""
    places, rows = place(nodes)
    for node in nodes:
        x, y = places[node.results[0]]
        for start in {places[name] for name in node.operands if name in places}:
            # What reads from far above bends around what lies between.
            bend = 0.0 if y - start[1] == 1 else -0.25 if start[0] > 0 else 0.25
            line = {"arrowstyle": "-", "color": LINE, "connectionstyle": f"arc3,rad={bend}"}
            axes.annotate("", (x, y), start, arrowprops=line, zorder=1)
        back, letters = colours(node.op)
        box = {"boxstyle": "round,pad=0.25", "facecolor": back, "edgecolor": "none"}
        axes.text(x, y, node.op, fontsize=8, ha="center", va="center", color=letters, bbox=box)
    axes.set(xlim=(-2.9, 2.9), title=f"{title}\n{len(nodes)} nodes")
    axes.axis("off")
    return rows


def place(nodes: Sequence[Drawn]) -> tuple[dict[str, tuple[float, int]], int]:
    """Where each result lies, across and down, and how many rows there are."""
    depth: dict[str, int] = {}
    rows: dict[int, list[Drawn]] = {}
    for node in nodes:
        row = 1 + max((depth[name] for name in node.operands if name in depth), default=0)
        rows.setdefault(row, []).append(node)
        depth |= dict.fromkeys(node.results, row)
    return {
        name: (1.9 * (column - (len(several) - 1) / 2), row)
        for row, several in rows.items()
        for column, node in enumerate(several)
        for name in node.results
    }, len(rows)


def colours(op: str) -> tuple[str, str]:
    """Of a node's box and of the letters in it."""
    if op in BLUE:
        return "#0072b2", "white"
    if op in RED:
        return "#c85200", "white"
    return ("#c8c8c8" if op in GREY else "#ffbc79"), "black"
