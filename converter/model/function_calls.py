"""Repeated blocks of a model as functions of ONNX, which hold their nodes once.

A block is a run of nodes that the graph repeats one after the other, with other operands, and
wherever else it stands. Each becomes one node, a call, that takes what differs: parameters,
constants, and what was computed before. Runtimes put the nodes back in place of the calls when they
load a file, so that the same is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from converter.ir.names import Names

NodeKind: TypeAlias = tuple[Any, ...]

SMALLEST = 6
"""Nodes that a block has at least: shorter ones make a file harder to read, not easier."""

DOMAIN = "local"
TRIED = 8
"""How many repetitions are looked at for a block that only one value leaves."""


@dataclass(frozen=True)
class OnnxFunction:
    """A function of a file: how often it is called, and how many nodes it has."""

    name: str
    calls: int
    nodes: int


def outline(model: ir.Model) -> list[OnnxFunction]:
    """Make a function of every block that repeats, in place, the largest first."""
    names, made = Names(), list[OnnxFunction]()
    while (blocks := _blocks(list(model.graph))) is not None:
        name = names.take(_common_name(blocks))
        function = _function(name, blocks, model.opset_imports)
        model.functions[function.identifier()] = function
        for each in blocks:
            _call(model.graph, name, each)
        made.append(OnnxFunction(name, len(blocks), len(blocks[0].nodes)))
    if made:
        model.opset_imports[DOMAIN] = 1
    return made


def _blocks(nodes: Sequence[ir.Node]) -> list[RepeatedBlock] | None:
    """A block and all that are like it, as saves most nodes."""
    plain = [node for node in nodes if node.domain != DOMAIN]
    for run in _runs(plain)[:TRIED]:
        instances = [list(_instances(each, plain)) for each in _cuts(plain, run)]
        best = max(instances, key=_saved, default=[])
        if _saved(best) > 0:
            return best
    return None


def _saved(blocks: Sequence[RepeatedBlock]) -> int:
    return _fewer(len(blocks), len(blocks[0].nodes)) if blocks else 0


def _fewer(count: int, nodes: int) -> int:
    """How many nodes fewer there are if so many blocks of so many nodes are calls."""
    return (count - 1) * nodes - count


def _cuts(nodes: Sequence[ir.Node], run: Run) -> list[RepeatedBlock]:
    """The blocks that a repetition can be cut into, by where the second of them begins."""
    starts = range(run.start + run.period, run.start + run.length - run.period + 1)
    candidates = [nodes[i : i + run.period] for i in starts[: run.period]]
    return [block for each in candidates if (block := _block(each)) is not None]


# ----------------------------------------------------------------------------------- repetitions


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
        return _fewer(self.length // self.period, self.period)


def _node_kind(node: ir.Node) -> NodeKind:
    """What two nodes have in common that differ in their operands only."""
    operands = tuple(value is None for value in node.inputs)
    attributes = tuple(sorted((name, _text(a)) for name, a in node.attributes.items()))
    return (node.domain, node.op_type, attributes, operands, len(node.outputs))


def _text(attribute: ir.Attr) -> str:
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{tensor.dtype} {tensor.shape} {tensor.tobytes().hex()}"
    return f"{attribute.type} {attribute.value}"


def _is_plain(node: ir.Node) -> bool:
    """Whether a node may be in a function: it has no bodies, which read values around them."""
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return not any(a.type in graphs for a in node.attributes.values())


def _runs(nodes: Sequence[ir.Node]) -> list[Run]:
    """The repetitions that save nodes, those first that save most."""
    numbers: dict[NodeKind, int] = {}
    line = np.array([_kind_number(node, i, numbers) for i, node in enumerate(nodes)])
    periods = range(SMALLEST, len(line) // 2 + 1)
    runs = [run for period in periods for run in _runs_of(line, period)]
    return sorted(runs, key=lambda run: (-run.saved, run.period, run.start))


def _kind_number(node: ir.Node, place: int, numbers: dict[NodeKind, int]) -> int:
    """The same for nodes of one kind; one of its own, below zero, for what stays where it is."""
    return numbers.setdefault(_node_kind(node), len(numbers)) if _is_plain(node) else -1 - place


def _runs_of(line: np.ndarray, period: int) -> Iterator[Run]:
    """Where every number is that of one period later, for a period or longer."""
    same = np.concatenate([[0], (line[:-period] == line[period:]).astype(int), [0]])
    edges = np.flatnonzero(np.diff(same)).reshape(-1, 2)
    for start, stop in edges[edges[:, 1] - edges[:, 0] >= period]:
        yield Run(int(start), period, int(stop - start) + period)


# ------------------------------------------------------------------------------------- instances


@dataclass(frozen=True)
class RepeatedBlock:
    """Nodes of which only the last's first output is read elsewhere, and what they read."""

    nodes: tuple[ir.Node, ...]
    operands: tuple[ir.Value, ...]

    @property
    def last(self) -> ir.Node:
        return self.nodes[-1]


def _block(nodes: Sequence[ir.Node]) -> RepeatedBlock | None:
    """A block of these nodes, if nothing but the last's result leaves them."""
    inside = set(nodes)
    if not _is_closed(inside, nodes[-1]):
        return None
    read = (value for node in nodes for value in node.inputs if value is not None)
    operands = dict.fromkeys(v for v in read if v.producer() not in inside)
    return RepeatedBlock(tuple(nodes), tuple(operands))


def _is_closed(inside: set[ir.Node], last: ir.Node) -> bool:
    """Whether nothing is read outside but the first output of the last node."""
    inner = (value for node in inside for value in node.outputs if value is not last.outputs[0])
    return not any(
        value.is_graph_output() or any(user not in inside for user, _ in value.uses())
        for value in inner
    )


def _instances(of: RepeatedBlock, nodes: Sequence[ir.Node]) -> Iterator[RepeatedBlock]:
    """All that are like the block, in order, none with a node of another."""
    taken, last = set[ir.Node](), _node_kind(of.last)
    for node in nodes:
        if _node_kind(node) == last and (block := _alike(of, node)) is not None:
            inside = set(block.nodes)
            if not (inside & taken) and _is_closed(inside, node):
                taken |= inside
                yield block


def _alike(block: RepeatedBlock, last: ir.Node) -> RepeatedBlock | None:
    """The block that ends in a node, if going back from there finds the same."""
    inside, nodes = set(block.nodes), {block.last: last}
    operands: dict[ir.Value, ir.Value] = {}
    for ours in reversed(block.nodes):
        theirs = nodes[ours]
        if _node_kind(ours) != _node_kind(theirs):
            return None
        for one, other in zip(ours.inputs, theirs.inputs, strict=True):
            if one is None or other is None:
                continue  # of the same kind: both are
            first, second = one.producer(), other.producer()
            if first is None or first not in inside:
                same = operands.setdefault(one, other) is other
            elif second is None or one.index() != other.index():
                same = False
            else:
                same = nodes.setdefault(first, second) is second
            if not same:
                return None
    if len(set(nodes.values())) < len(inside):
        return None
    return RepeatedBlock(
        tuple(nodes[node] for node in block.nodes), tuple(operands[v] for v in block.operands)
    )


# ---------------------------------------------------------------------------------------- names


def _common_name(blocks: Sequence[RepeatedBlock]) -> str:
    """How the paths of all parameters begin: ``blocks`` of ``blocks.0.mlp.weight`` and others."""
    paths = [_path(v) for each in blocks for v in each.operands if v.is_initializer()]
    shared = _beginning(path for path in paths if len(path) > 1)
    return "_".join(takewhile(lambda part: not part.isdigit(), shared)) or "block"


def _path(value: ir.Value) -> list[str]:
    return str(value.name).split(".")


def _beginning(paths: Iterable[Sequence[str]]) -> list[str]:
    """How all of them begin."""
    columns = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return [first for first, *_ in columns]


def _operand_names(blocks: Sequence[RepeatedBlock]) -> list[str]:
    """How the paths of an operand of all instances end: ``mlp.weight``; else a number."""
    names, operands = Names(), zip(*(each.operands for each in blocks), strict=True)
    ends = (_beginning(_path(v)[::-1] for v in values)[::-1] for values in operands)
    return [names.take(".".join(end) or f"operand_{i}") for i, end in enumerate(ends)]


# ------------------------------------------------------------------------------------- rewriting


def _function(name: str, blocks: Sequence[RepeatedBlock], opsets: dict[str, int]) -> ir.Function:
    """The first block's nodes, on inputs of their own."""
    first = blocks[0]
    inputs = [ir.Value(name=each) for each in _operand_names(blocks)]
    names = Names(str(v.name) for v in inputs)
    inner_values: dict[ir.Value, ir.Value] = dict(zip(first.operands, inputs, strict=True))
    nodes = []
    for node in first.nodes:
        copy = ir.Node(
            node.domain,
            node.op_type,
            [None if v is None else inner_values[v] for v in node.inputs],
            node.attributes.values(),
            num_outputs=len(node.outputs),
            name=node.name,
            doc_string=node.doc_string,
        )
        for ours, theirs in zip(node.outputs, copy.outputs, strict=True):
            theirs.name = names.take(str(ours.name))
            inner_values[ours] = theirs
        nodes.append(copy)
    outputs = [inner_values[first.last.outputs[0]]]
    used = {node.domain for node in first.nodes}
    imports = {domain: version for domain, version in opsets.items() if domain in {"", *used}}
    graph = ir.Graph(inputs, outputs, nodes=nodes, opset_imports=imports, name=name)
    return ir.Function(DOMAIN, name, graph=graph, attributes=[])


def _call(graph: ir.Graph, name: str, each: RepeatedBlock) -> None:
    """One node in the place of a block's last; its result keeps the name."""
    old = each.last.outputs[:1]
    call = ir.node(name, list(each.operands), domain=DOMAIN, name=each.last.name)
    ir.convenience.replace_nodes_and_values(
        graph, each.last, each.nodes[::-1], [call], old, call.outputs
    )
