"""The intermediate representation: a def-use graph of JAX primitives and composites.

A ``Graph`` is what a jaxpr becomes once every call is inlined. Its values carry shape and dtype,
its nodes an operation name, operands, parameters and, for control flow, nested ``Graph`` bodies.
Bodies may read values of the graphs around them (ONNX subgraphs may too), so loop-invariant
operands are captured, not threaded through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from converter.ir.dims import Shape, shape_text
from converter.ir.op import Op

Kind = Literal["input", "param", "const", "node"]
Meaning: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], list[Any]]


# Values know their nodes and nodes their values, so a generated repr would not end in a lifetime.
@dataclass(eq=False, slots=True, repr=False)
class Value:
    """One array in the graph.

    ``kind`` says where it comes from: a graph input, a parameter, a constant (``const`` holds it)
    or output ``index`` of ``node``. A parameter's numbers are known only when the file is saved:
    then it gets others or keeps those of the traced leaf (``bound``), or it is computed from other
    parameters (``program``, a value of nodes of its own). ``within`` are the least and the largest
    number that a loop can give an input of its body, where that has been proved.
    """

    shape: Shape
    dtype: np.dtype
    kind: Kind = "node"
    name: str = ""
    const: Any = None
    bound: Any = None
    node: Node | None = None
    index: int = 0
    program: Value | None = None
    within: tuple[float, float] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    def made_by(self, *ops: Op) -> Node | None:
        """The node that makes it, if its operation is one of these."""
        return self.node if self.node is not None and self.node.op in ops else None

    def type_text(self) -> str:
        return f"{self.dtype.name}[{shape_text(self.shape)}]"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.type_text()}>"


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """One operation. ``meaning(arrays, params)`` applies JAX's own, where it came from a jaxpr.

    A ``refusal`` says why it cannot be written, where that is known before it is to be.
    """

    op: Op
    inputs: list[Value]
    params: dict[str, Any]
    outputs: list[Value] = field(default_factory=list)
    bodies: dict[str, Graph] = field(default_factory=dict)
    meaning: Meaning | None = None
    source: tuple[Any, ...] = ()  # JAX's own record of where it was written, innermost first
    refusal: str = ""

    @property
    def out(self) -> Value:
        return self.outputs[0]

    def __repr__(self) -> str:
        return f"<{self.op} of {self.inputs}>"

    def operands(self) -> Iterator[Value]:
        """Inputs, then whatever the bodies capture from outside."""
        yield from self.inputs
        for body in self.bodies.values():
            yield from body.captured()

    def replace_operands(self, resolve: Callable[[Value], Value]) -> None:
        self.inputs = [resolve(v) for v in self.inputs]
        if self.bodies:
            for body in self.bodies.values():
                body.replace_operands(resolve)


@dataclass(frozen=True)
class Fact:
    """``holds`` of the numbers of ``value``, a program of parameters: a proof rests on that.

    Where a parameter is bound to other numbers it has to be asked again.
    """

    value: Value
    holds: Callable[[np.ndarray], bool]


@dataclass(eq=False, repr=False)
class Graph:
    """Inputs, parameters, nodes in topological order, outputs."""

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]
    params: list[Value] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    constraints: tuple[str, ...] = ()  # what is given of named dimensions: "mod(h, 16) == 0"
    facts: dict[tuple[Value, str], Fact] = field(default_factory=dict)  # by what is said of what

    def replace_operands(self, resolve: Callable[[Value], Value]) -> None:
        for node in self.nodes:
            node.replace_operands(resolve)
        self.outputs = [resolve(v) for v in self.outputs]

    def captured(self) -> Iterator[Value]:
        """Values read here but defined outside, constants and parameters included."""
        own = {id(v) for v in self.inputs}
        for node in self.nodes:
            own.update(id(v) for v in node.outputs)
        for value in (*(v for n in self.nodes for v in n.operands()), *self.outputs):
            if id(value) not in own:
                yield value

    def uses(self) -> dict[int, list[Node | None]]:
        """id(value) -> the nodes that read it; ``None`` stands for the graph's outputs."""
        table: dict[int, list[Node | None]] = {}
        for node in self.nodes:
            for value in node.operands():
                table.setdefault(id(value), []).append(node)
        for value in self.outputs:
            table.setdefault(id(value), []).append(None)
        return table

    def walk(self) -> Iterator[Node]:
        """Every node, those of nested bodies included."""
        for node in self.nodes:
            yield node
            if node.bodies:
                for body in node.bodies.values():
                    yield from body.walk()

    def claimed(self) -> frozenset[str]:
        """The names of users' own primitives and of what their recognisers found."""
        return frozenset(node.op.name for node in self.walk() if node.op.domain == "user")

    def count(self, op: Op) -> int:
        return sum(node.op is op for node in self.walk())

    def clone(self) -> Graph:
        """An independent copy; inputs, parameters and constants are shared values."""
        return _clone(self, {})

    def __str__(self) -> str:
        return "\n".join(_lines(self, _Names(), indent=""))

    def __repr__(self) -> str:
        sizes = (len(self.inputs), len(self.params), len(self.nodes), len(self.outputs))
        return "<graph of {} inputs, {} parameters, {} nodes, {} outputs>".format(*sizes)


def _clone(graph: Graph, table: dict[int, Value]) -> Graph:
    def copied(value: Value) -> Value:
        return table.get(id(value), value)

    nodes = []
    for node in graph.nodes:
        inputs, types = [copied(v) for v in node.inputs], [(v.shape, v.dtype) for v in node.outputs]
        twin = make_node(
            node.op, inputs, types, node.params, meaning=node.meaning, source=node.source
        )
        twin.refusal = node.refusal
        twin.bodies = {name: _clone(body, table) for name, body in node.bodies.items()}
        for out, fresh in zip(node.outputs, twin.outputs, strict=True):
            fresh.name, table[id(out)] = out.name, fresh
        nodes.append(twin)
    outputs = [copied(v) for v in graph.outputs]
    params, names = list(graph.params), list(graph.output_names)
    facts = dict(graph.facts)
    return Graph(list(graph.inputs), outputs, nodes, params, names, graph.constraints, facts)


def make_node(
    op: Op,
    inputs: Sequence[Value],
    types: Sequence[tuple[Shape, np.dtype]],
    params: Mapping[str, Any] | None = None,
    *,
    meaning: Meaning | None = None,
    source: tuple[Any, ...] = (),
) -> Node:
    """A node with fresh outputs of the given types."""
    node = Node(op, list(inputs), dict(params or {}), meaning=meaning, source=source)
    node.outputs = [Value(s, np.dtype(d), node=node, index=i) for i, (s, d) in enumerate(types)]
    return node


def const(array: Any, dtype: Any = None) -> Value:
    """A constant value."""
    array = np.asarray(array, dtype)
    return Value(array.shape, array.dtype, kind="const", const=array)


class _Names:
    """Short printed names: %0, %1 … in order of appearance; parameters and inputs keep theirs."""

    def __init__(self) -> None:
        self._table: dict[int, str] = {}

    def __call__(self, value: Value) -> str:
        if value.kind == "const" and value.const is not None:
            small = value.const.size == 1
            return f"{value.const.item()!r}" if small else f"<const {value.type_text()}>"
        if value.kind != "node" and value.name:
            return f"%{value.name}"
        return self._table.setdefault(id(value), f"%{len(self._table)}")


def _lines(graph: Graph, names: _Names, indent: str) -> Iterator[str]:
    inputs = ", ".join(f"{names(v)}: {v.type_text()}" for v in graph.inputs)
    yield f"{indent}graph({inputs}):"
    for node in graph.nodes:
        left = ", ".join(f"{names(v)}: {v.type_text()}" for v in node.outputs)
        right = ", ".join(names(v) for v in node.inputs)
        shown = {k: v for k, v in node.params.items() if v is not None}
        params = " ".join(f"{k}={_short(v)}" for k, v in shown.items())
        yield f"{indent}  {left} = {node.op}({right}) {params}".rstrip()
        for name, body in node.bodies.items():
            yield f"{indent}    {name}:"
            yield from _lines(body, names, indent + "      ")
    yield f"{indent}  return {', '.join(names(v) for v in graph.outputs)}"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
