"""Blocks that repeat become calls of functions, in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import onnx_ir as ir

from converter.ir.names import Names
from converter.model.functions.instances import Block, block, instances
from converter.model.functions.repeats import Run, runs

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
    while (found := _blocks(list(model.graph))) is not None:
        name = names.take(_common_name(found))
        function = _function(name, found, model.opset_imports)
        model.functions[function.identifier()] = function
        for each in found:
            _call(model.graph, name, each)
        made.append(OnnxFunction(name, len(found), len(found[0].nodes)))
    if made:
        model.opset_imports[DOMAIN] = 1
    return made


def _blocks(nodes: Sequence[ir.Node]) -> list[Block] | None:
    """A block and all that are like it, as saves most nodes."""
    plain = [node for node in nodes if node.domain != DOMAIN]
    for run in runs(plain)[:TRIED]:
        found = [list(instances(each, plain)) for each in _cuts(plain, run)]
        best = max(found, key=_saved, default=[])
        if len(best) > 1 and _saved(best) > 0:
            return best
    return None


def _saved(found: Sequence[Block]) -> int:
    return (len(found) - 1) * len(found[0].nodes) - len(found)


def _cuts(nodes: Sequence[ir.Node], run: Run) -> list[Block]:
    """The blocks that a repetition can be cut into, by where the second of them begins."""
    starts = range(run.start + run.period, run.start + run.length - run.period + 1)
    candidates = [nodes[i : i + run.period] for i in starts[: run.period]]
    return [found for each in candidates if (found := block(each)) is not None]


# ---------------------------------------------------------------------------------------- names


def _common_name(found: Sequence[Block]) -> str:
    """How the paths of all parameters begin: ``blocks`` of ``blocks.0.mlp.weight`` and others."""
    paths = [_path(v) for each in found for v in each.operands if v.is_initializer()]
    shared = _beginning(path for path in paths if len(path) > 1)
    return "_".join(takewhile(lambda part: not part.isdigit(), shared)) or "block"


def _path(value: ir.Value) -> list[str]:
    return str(value.name).split(".")


def _beginning(paths: Iterable[Sequence[str]]) -> list[str]:
    """How all of them begin."""
    columns = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return [first for first, *_ in columns]


def _operand_names(found: Sequence[Block]) -> list[str]:
    """How the paths of an operand of all instances end: ``mlp.weight``; else a number."""
    names, operands = Names(), zip(*(each.operands for each in found), strict=True)
    ends = (_beginning(_path(v)[::-1] for v in values)[::-1] for values in operands)
    return [names.take(".".join(end) or f"operand_{i}") for i, end in enumerate(ends)]


# ------------------------------------------------------------------------------------- rewriting


def _function(name: str, found: Sequence[Block], opsets: dict[str, int]) -> ir.Function:
    """The first block's nodes, on inputs of their own."""
    first = found[0]
    inputs = [ir.Value(name=each) for each in _operand_names(found)]
    names = Names(str(v.name) for v in inputs)
    known: dict[ir.Value, ir.Value] = dict(zip(first.operands, inputs, strict=True))
    nodes = []
    for node in first.nodes:
        copy = ir.Node(
            node.domain,
            node.op_type,
            [None if v is None else known[v] for v in node.inputs],
            node.attributes.values(),
            num_outputs=len(node.outputs),
            name=node.name,
            doc_string=node.doc_string,
        )
        for ours, theirs in zip(node.outputs, copy.outputs, strict=True):
            theirs.name = names.take(str(ours.name))
            known[ours] = theirs
        nodes.append(copy)
    outputs = [known[first.last.outputs[0]]]
    used = {node.domain for node in first.nodes}
    imports = {domain: version for domain, version in opsets.items() if domain in {"", *used}}
    graph = ir.Graph(inputs, outputs, nodes=nodes, opset_imports=imports, name=name)
    return ir.Function(DOMAIN, name, graph=graph, attributes=[])


def _call(graph: ir.Graph, name: str, each: Block) -> None:
    """One node in the place of a block's last; its result keeps the name."""
    old = each.last.outputs[0]
    call = ir.node(name, list(each.operands), domain=DOMAIN, name=each.last.name)
    (new,) = call.outputs
    new.name, new.shape, new.type = old.name, old.shape, old.type
    graph.insert_after(each.last, call)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    graph.remove(reversed(each.nodes), safe=True)
