"""The intermediate representation: a def-use graph of JAX primitives and composites.

A ``Graph`` is a jaxpr with all calls inlined. Its values have a shape and a dtype. Its nodes have
an operation, operands, parameters and, for control flow, nested ``Graph`` bodies. Bodies may read
values of the graphs around them, as ONNX subgraphs may, so loop-invariant operands are captured
instead of being passed as inputs.
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


# Values refer to nodes and nodes to values, so a generated repr would be endless.
@dataclass(eq=False, slots=True, repr=False)
class Value:
    """One array in the graph, with a shape and a dtype.

    ``kind`` says where the array comes from: a graph input, a parameter, a constant (its array is
    ``const``) or output number ``index`` of ``node``. Results of nodes need no ``name``.

    The numbers of a parameter are chosen when the file is saved. ``bound`` is the array of the
    traced model, which is used by default; it is None if the model is abstract. If ``program`` is
    not None, the numbers are those of that value, which nodes compute from other parameters (a
    weight program).

    ``known_bounds`` contains the least and the largest number that a loop can give to an input of
    its body. It is None unless these bounds are proved.
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
    known_bounds: tuple[float, float] | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def producer_if(self, *ops: Op) -> Node | None:
        """Return the node that computes the value if its operation is one of these, else None."""
        return self.node if self.node is not None and self.node.op in ops else None

    def type_text(self) -> str:
        """Return the dtype and the shape as text, such as ``float32[2,3]``."""
        return f"{self.dtype.name}[{shape_text(self.shape)}]"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.type_text()}>"


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """One application of an operation to values.

    ``bodies`` are nested graphs by name, such as the branches of a conditional. ``meaning(arrays,
    params)`` evaluates a node from a jaxpr with JAX's primitive and returns the list of its
    results. ``source`` contains the stack frames of the user's code, innermost first.
    ``refusal_reason`` is the reason why the node cannot be converted if that is known before
    lowering, else "".
    """

    op: Op
    inputs: list[Value]
    params: dict[str, Any]
    outputs: list[Value] = field(default_factory=list)
    bodies: dict[str, Graph] = field(default_factory=dict)
    meaning: Meaning | None = None
    source: tuple[Any, ...] = ()  # the stack frames of the user's code, innermost first
    refusal_reason: str = ""

    @property
    def out(self) -> Value:
        """First output."""
        return self.outputs[0]

    def __repr__(self) -> str:
        return f"<{self.op} of {self.inputs}>"

    def operands(self) -> Iterator[Value]:
        """Yield the inputs, then the values that bodies capture from the graphs around them.

        A value that is read several times is yielded several times.
        """
        yield from self.inputs
        for body in self.bodies.values():
            yield from body.captured()

    def replace_operands(self, resolve: Callable[[Value], Value]) -> None:
        """Replace every input by ``resolve(input)``, in place, also the operands and outputs of
        bodies."""
        self.inputs = [resolve(v) for v in self.inputs]
        if self.bodies:
            for body in self.bodies.values():
                body.replace_operands(resolve)


@dataclass(frozen=True)
class Fact:
    """A property of parameter values that a rewrite relies on.

    ``value`` is computed from parameters alone. ``holds`` returns True if its array has the
    property. The check is repeated if a parameter is bound to other numbers.
    """

    value: Value
    holds: Callable[[np.ndarray], bool]


@dataclass(eq=False, repr=False)
class Graph:
    """Inputs, parameters, nodes in topological order, and outputs.

    ``output_names`` has a name for each output. Nested graphs have no ``params`` and no
    ``output_names``. ``constraints`` are the constraints on named dimensions as text. ``facts``
    contains the facts by value and the name of the property.
    """

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]
    params: list[Value] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    constraints: tuple[str, ...] = ()  # constraints on named dimensions, such as "mod(h, 16) == 0"
    # The facts by value and property.
    facts: dict[tuple[Value, str], Fact] = field(default_factory=dict)

    def replace_operands(self, resolve: Callable[[Value], Value]) -> None:
        """Replace every operand and output by ``resolve(value)``, also in bodies, in place."""
        for node in self.nodes:
            node.replace_operands(resolve)
        self.outputs = [resolve(v) for v in self.outputs]

    def captured(self) -> Iterator[Value]:
        """Yield the values that the graph reads but does not define, including constants and
        parameters.

        A value that is read several times is yielded several times.
        """
        defined = {id(v) for v in self.inputs}
        for node in self.nodes:
            defined.update(id(v) for v in node.outputs)
        for value in (*(v for n in self.nodes for v in n.operands()), *self.outputs):
            if id(value) not in defined:
                yield value

    def uses(self) -> dict[int, list[Node | None]]:
        """Return the nodes of this graph that read each value, by the value's id.

        A node that reads a value twice is listed twice. A node also reads the values that its
        bodies capture. ``None`` represents the outputs of the graph. Values that are not read have
        no entry.
        """
        table: dict[int, list[Node | None]] = {}
        for node in self.nodes:
            for value in node.operands():
                table.setdefault(id(value), []).append(node)
        for value in self.outputs:
            table.setdefault(id(value), []).append(None)
        return table

    def walk(self) -> Iterator[Node]:
        """Yield every node, including those of nested bodies. A node comes before the nodes of its
        bodies."""
        for node in self.nodes:
            yield node
            if node.bodies:
                for body in node.bodies.values():
                    yield from body.walk()

    def user_op_names(self) -> frozenset[str]:
        """Return the names of users' primitives and of the operations of users' recognisers in the
        graph."""
        return frozenset(node.op.name for node in self.walk() if node.op.domain == "user")

    def count(self, op: Op) -> int:
        """Return the number of nodes of an operation, including those of nested bodies."""
        return sum(node.op is op for node in self.walk())

    def clone(self) -> Graph:
        """Return a copy with its own nodes, results and bodies.

        The inputs of the graph and of its bodies, parameters, constants and facts are shared with
        the original.
        """
        return _clone(self, {})

    def __str__(self) -> str:
        return "\n".join(_print_lines(self, _Names(), indent=""))

    def __repr__(self) -> str:
        sizes = (len(self.inputs), len(self.params), len(self.nodes), len(self.outputs))
        return "<graph of {} inputs, {} parameters, {} nodes, {} outputs>".format(*sizes)


def _clone(graph: Graph, copies: dict[int, Value]) -> Graph:
    """Return a copy of a graph or body with its own nodes.

    ``copies`` maps the ids of original values to their copies, and gets the copies of this graph.
    Values without a copy are shared.
    """

    def copy_of(value: Value) -> Value:
        return copies.get(id(value), value)

    nodes = []
    for node in graph.nodes:
        inputs, types = (
            [copy_of(v) for v in node.inputs],
            [(v.shape, v.dtype) for v in node.outputs],
        )
        copy = make_node(
            node.op, inputs, types, node.params, meaning=node.meaning, source=node.source
        )
        copy.refusal_reason = node.refusal_reason
        copy.bodies = {name: _clone(body, copies) for name, body in node.bodies.items()}
        for value, output in zip(node.outputs, copy.outputs, strict=True):
            output.name, copies[id(value)] = value.name, output
        nodes.append(copy)
    outputs = [copy_of(v) for v in graph.outputs]
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
    """Return a node with new outputs, which belongs to no graph yet.

    ``types`` contains the shape and the dtype of each output. ``meaning`` and ``source`` are fields
    of ``Node``.
    """
    node = Node(op, list(inputs), dict(params or {}), meaning=meaning, source=source)
    node.outputs = [Value(s, np.dtype(d), node=node, index=i) for i, (s, d) in enumerate(types)]
    return node


def const(array: Any, dtype: Any = None) -> Value:
    """Return a constant value. Its array is converted to ``dtype`` if one is given, and is not
    copied otherwise."""
    array = np.asarray(array, dtype)
    return Value(array.shape, array.dtype, kind="const", const=array)


class _Names:
    """Names of values in a printed graph.

    Inputs and parameters keep their names. Other values are %0, %1, … in order of appearance. A
    constant of one element is its number, another constant is its type.
    """

    def __init__(self) -> None:
        self._table: dict[int, str] = {}

    def __call__(self, value: Value) -> str:
        if value.kind == "const" and value.const is not None:
            is_single = value.const.size == 1
            return f"{value.const.item()!r}" if is_single else f"<const {value.type_text()}>"
        if value.kind != "node" and value.name:
            return f"%{value.name}"
        return self._table.setdefault(id(value), f"%{len(self._table)}")


def _print_lines(graph: Graph, names: _Names, indent: str) -> Iterator[str]:
    """Yield the lines of a printed graph, with the nested bodies indented under their nodes.
    Parameters that are None are left out."""
    inputs = ", ".join(f"{names(v)}: {v.type_text()}" for v in graph.inputs)
    yield f"{indent}graph({inputs}):"
    for node in graph.nodes:
        results = ", ".join(f"{names(v)}: {v.type_text()}" for v in node.outputs)
        operands = ", ".join(names(v) for v in node.inputs)
        params_with_values = {k: v for k, v in node.params.items() if v is not None}
        params = " ".join(f"{k}={_short_text(v)}" for k, v in params_with_values.items())
        yield f"{indent}  {results} = {node.op}({operands}) {params}".rstrip()
        for name, body in node.bodies.items():
            yield f"{indent}    {name}:"
            yield from _print_lines(body, names, indent + "      ")
    yield f"{indent}  return {', '.join(names(v) for v in graph.outputs)}"


def _short_text(value: Any) -> str:
    """Return the text of a parameter on one line, cut to 80 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
