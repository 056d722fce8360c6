"""Runs of nodes that a graph repeats, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

NodeKind: TypeAlias = tuple[Any, ...]

SMALLEST = 6
"""Nodes that a block has at least: shorter ones make a file harder to read, not easier."""


@dataclass(frozen=True)
class Run:
    """Blocks of ``period`` nodes, one after the other, from node ``start`` on; ``length`` nodes
    altogether, of which the last may be a part of a block only.
    """

    start: int
    period: int
    length: int

    @property
    def saved(self) -> int:
        """How many nodes fewer there are if the blocks are calls of one function."""
        count = self.length // self.period
        return (count - 1) * self.period - count


def node_kind(node: ir.Node) -> NodeKind:
    """What two nodes have in common that differ in their operands only."""
    operands = tuple(value is None for value in node.inputs)
    attributes = tuple(sorted((name, _text(a)) for name, a in node.attributes.items()))
    return (node.domain, node.op_type, attributes, operands, len(node.outputs))


def _text(attribute: ir.Attr) -> str:
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{tensor.dtype} {tensor.shape} {tensor.tobytes().hex()}"
    return f"{attribute.type} {attribute.value}"


def is_plain(node: ir.Node) -> bool:
    """Whether a node may be in a function: it has no bodies, which read values around them."""
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return not any(a.type in graphs for a in node.attributes.values())


def runs(nodes: Sequence[ir.Node]) -> list[Run]:
    """The repetitions that save nodes, those first that save most."""
    numbers: dict[NodeKind, int] = {}
    line = np.array([_repeats_number(node, i, numbers) for i, node in enumerate(nodes)])
    found = [run for period in range(SMALLEST, len(line) // 2 + 1) for run in _runs(line, period)]
    return sorted(found, key=lambda run: (-run.saved, run.period, run.start))


def _repeats_number(node: ir.Node, place: int, numbers: dict[NodeKind, int]) -> int:
    """The same for nodes of one kind; one of its own, below zero, for what stays where it is."""
    return numbers.setdefault(node_kind(node), len(numbers)) if is_plain(node) else -1 - place


def _runs(line: np.ndarray, period: int) -> Iterator[Run]:
    """Where every number is that of one period later, for a period or longer."""
    same = np.concatenate([[0], (line[:-period] == line[period:]).astype(int), [0]])
    edges = np.flatnonzero(np.diff(same)).reshape(-1, 2)
    for start, stop in edges[edges[:, 1] - edges[:, 0] >= period]:
        run = Run(int(start), period, int(stop - start) + period)
        if run.saved > 0:
            yield run
