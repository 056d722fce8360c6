"""The builder with which lowering rules emit ONNX nodes, on top of onnx_ir's ``Tape``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.errors import ConverterError, UnsupportedError
from converter.frontend.source_lines import portable_line
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dims import Dim, Shape
from converter.ir.named_sizes import Origin
from converter.lower import lowerings
from converter.lower.size_arithmetic import Arithmetic
from converter.targets import Target


@dataclass
class ModelState:
    """State that the builders of one model share.

    - `main`: collects the nodes and initializers of the main graph.
    - `values`: the ONNX value of each lowered graph value, by the id of the graph value.
    - `constants`: the initializers of constants, by dtype, shape and bytes.
    - `sizes`: the int64 vectors that are already emitted for dimensions, by their text.
    - `origins`: for each named dimension, the input and the axis from which it is computed.
    - `counts`: how many names of each stem were returned by `unused_name`.
    - `errors`: if it is a list, errors for nodes that cannot be lowered are added to it instead of
      raised.
    - `domains`: the version of each operator domain other than ONNX's.
    - `user_op_names`: names of users' primitives in the program.
    - `reserved`: the names of inputs, parameters and outputs, and each of their beginnings before a
      "_".
    """

    opset: int
    target: Target
    main: ir.tape.Tape
    values: dict[int, ir.Value] = field(default_factory=dict)  # id(graph value) -> ONNX value
    constants: dict[Any, ir.Value] = field(default_factory=dict)
    sizes: dict[str, ir.Value] = field(default_factory=dict)  # text -> [1] or [rank] of int64
    origins: dict[str, tuple[ir.Value, Origin]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[UnsupportedError] | None = None  # if a list, errors are collected here
    has_source_lines: bool = False  # whether the source line is written to each node
    # The version of each operator domain other than ONNX's.
    domains: dict[str, int] = field(default_factory=dict)
    user_op_names: frozenset[str] = frozenset()  # names of users' own primitives
    # The names of inputs, parameters and outputs, and each of their beginnings before a "_".
    reserved: frozenset[str] = frozenset()

    def unused_name(self, stem: str) -> str:
        """Return an unused name ``stem_0``, ``stem_1`` …, the same on every run.

        No input, parameter or output has this name, alone or followed by ``_``.
        """
        while (label := f"{stem}_{self.counts[stem]}") in self.reserved:
            self.counts[stem] += 1
        self.counts[stem] += 1
        return label


def set_type(value: ir.Value, shape: Shape, dtype: Any) -> ir.Value:
    """Set the shape and dtype of an ONNX value, and return it. Symbolic dimensions are written as
    text."""
    value.dtype = ir.DataType.from_numpy(np.dtype(dtype))
    value.shape = ir.Shape([d if dims.is_static(d) else str(d) for d in shape])
    return value


class Builder:
    """Builder of the ONNX nodes of one graph or subgraph.

    A lowering rule emits nodes by its methods. ``node`` is the graph node that is being lowered.
    """

    def __init__(self, shared: ModelState, tape: ir.tape.Tape) -> None:
        self.shared = shared
        self.tape = tape
        self.node: Node = Node(ops.op_by_name(""), [], {})

    @property
    def opset(self) -> int:
        """The ONNX opset that is written."""
        return self.shared.opset

    @property
    def out(self) -> Value:
        """The first output of the node being lowered, with its shape and dtype."""
        return self.node.outputs[0]

    def has_operator(self, operator: str, dtype: Any) -> bool:
        """Return True if the target supports the ONNX operator for this dtype at this opset."""
        return self.shared.target.has_operator(operator, dtype, self.opset)

    def operand(self, index: int = 0) -> Value:
        """Return an operand of the node being lowered, with its shape and dtype."""
        return self.node.inputs[index]

    # -------------------------------------------------------------------------------- operators

    def op(self, name: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Emit an ONNX node with one output and return the output. Attributes that are ``None`` are
        omitted.

        An operator of another domain than ONNX's needs ``domain``, and ``version`` if it is not 1.
        """
        return self.ops(name, inputs, 1, **attributes)[0]

    def ops(
        self,
        name: str,
        inputs: Sequence[ir.Value | None],
        outputs: int,
        *,
        domain: str = "",
        version: int = 1,
        **attributes: Any,
    ) -> Sequence[ir.Value]:
        """Emit an ONNX node with ``outputs`` outputs and return them.

        An input that is None is omitted. The other arguments have the same meaning as in `op`.
        """
        if domain:
            self.shared.domains[domain] = version
        present = {k: v for k, v in attributes.items() if v is not None}
        self._check_attributes(name, present)
        label = self.shared.unused_name(name)
        results = self.tape.op_multi_out(
            name, list(inputs), attributes=present, num_outputs=outputs, name=label, domain=domain
        )
        for i, value in enumerate(results):
            value.name = label if outputs == 1 else f"{label}_{i}"
        if self.shared.has_source_lines and self.node.source:
            self.tape.nodes[-1].doc_string = portable_line(self.node)
        return results

    def _check_attributes(self, name: str, attributes: dict[str, Any]) -> None:
        """Raise `UnsupportedError` if an attribute of the operator ``name`` has a named dimension.

        Attributes of ONNX have to be numbers.
        """
        for attribute, dim in lowerings.named_dimensions(attributes):
            raise lowerings.unsupported(
                self.node,
                self.opset,
                f"'{attribute}' of {name} is the dimension '{dim}', and has to be a number; "
                "give one in specs",
            )

    # -------------------------------------------------------------------------------- constants

    def const(self, array: Any, dtype: Any = None) -> ir.Value:
        """Return an initializer of the main graph with this array, converted to ``dtype`` if one is
        given.

        Equal constants of one dtype share an initializer.
        """
        array = np.ascontiguousarray(np.asarray(array, dtype)).reshape(np.shape(array))
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self.shared.constants:
            name = self.shared.unused_name("const")
            self.shared.constants[key] = self.shared.main.initializer(ir.tensor(array, name=name))
        return self.shared.constants[key]

    def like(self, number: float) -> ir.Value:
        """Return a scalar constant with the dtype of the first operand of the node being
        lowered."""
        return self.const(number, self.operand().dtype)

    def ints(self, numbers: Iterable[Dim]) -> ir.Value:
        """Return dimensions as an int64 vector.

        It is a constant if all are numbers. Otherwise it is computed from the shapes of the inputs.
        """
        numbers = tuple(numbers)
        if not any(map(dims.is_symbolic, numbers)):
            return self.const(np.asarray(numbers, np.int64))
        shared, main = self.shared, Builder(self.shared, self.shared.main)
        return Arithmetic(main.op, main.ints, shared.sizes, shared.origins).shape(numbers)

    shape = ints

    # ------------------------------------------------------------------------------------ shapes

    def range(self, size: Dim) -> ir.Value:
        """Return the int64 vector 0, 1, … size - 1."""
        zero, end = self.const(0, np.int64), self.squeeze(self.ints([size]), [0])
        return self.op("Range", zero, end, self.const(1, np.int64))

    def reshape(self, x: ir.Value, before: Shape, after: Shape) -> ir.Value:
        """Reshape a value from the shape ``before`` to the shape ``after``, or return it if they
        are equal.

        In ONNX a ``Reshape`` can copy named dimensions that do not change, and infer one other
        dimension. For a scalar result ``Squeeze`` is used, because optimizers for transformers
        assume that a ``Reshape`` with an empty target shape changes nothing.
        """
        if dims.is_same_shape(before, after):
            return x
        if not after:
            return self.squeeze(x, range(len(before)))
        has_zero = any(dims.is_same_dim(d, 0) for d in after)
        target: list[int] = []
        for i, dim in enumerate(after):
            if dims.is_static(dim):
                target.append(dim)
            elif not has_zero and i < len(before) and dims.is_same_dim(before[i], dim):
                target.append(0)
            else:
                target.append(-1)
        # ``Reshape`` cannot infer a dimension if another dimension may be zero.
        is_determined = all(
            dims.is_at_least(d, 1) for t, d in zip(target, after, strict=True) if t != -1
        )
        if -1 not in target or (target.count(-1) == 1 and is_determined):
            return self.op("Reshape", x, self.ints(target), allowzero=1 if has_zero else None)
        long_axes = [
            [i for i, d in enumerate(shape) if not dims.is_same_dim(d, 1)]
            for shape in (before, after)
        ]
        if dims.is_same_shape([before[i] for i in long_axes[0]], [after[i] for i in long_axes[1]]):
            x = self.squeeze(x, set(range(len(before))) - set(long_axes[0]))
            return self.unsqueeze(x, set(range(len(after))) - set(long_axes[1]))
        may_be_empty = not all(dims.is_at_least(d, 1) for d in after)
        return self.op("Reshape", x, self.ints(after), allowzero=1 if may_be_empty else None)

    def unsqueeze(self, x: ir.Value, axes: Iterable[int]) -> ir.Value:
        """Insert axes of size one at these positions of the result. Return ``x`` if there are
        none."""
        axes = list(axes)
        return self.op("Unsqueeze", x, self.ints(axes)) if axes else x

    def squeeze(self, x: ir.Value, axes: Iterable[int]) -> ir.Value:
        """Remove these axes of size one. Return ``x`` if there are none."""
        axes = list(axes)
        return self.op("Squeeze", x, self.ints(axes)) if axes else x

    def transpose(self, x: ir.Value, order: Sequence[int]) -> ir.Value:
        """Permute axes: axis i of the result is axis ``order[i]`` of ``x``. Return ``x`` if the
        order does not change."""
        order = list(order)
        return x if order == sorted(order) else self.op("Transpose", x, perm=order)

    def expand(self, x: ir.Value, before: Shape, after: Shape) -> ir.Value:
        """Broadcast a value from the shape ``before`` to the shape ``after``, or return it if they
        are equal.

        The shape operand of ``Expand`` has 1 for axes that do not change.
        """
        if dims.is_same_shape(before, after):
            return x
        new = len(after) - len(before)
        pairs = zip(before, after[new:], strict=True)
        operand_shape = (
            *after[:new],
            *(1 if dims.is_same_dim(size, d) else d for size, d in pairs),
        )
        return self.op("Expand", x, self.ints(operand_shape))

    def reverse(self, x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Reverse axes by slices with negative steps, whose end lies before the first element.

        A value without axes to reverse is returned unchanged, because ``Slice`` takes no scalars.
        """
        if not axes:
            return x
        back, end = [-1] * len(axes), [np.iinfo(np.int64).min] * len(axes)
        return self.op("Slice", x, *map(self.ints, (back, end, axes, back)))

    def cast(self, x: ir.Value, dtype: Any) -> ir.Value:
        """Cast a value. Numbers out of the range of an eight-bit float become NaN or infinity, as
        in JAX."""
        saturate = 0 if np.dtype(dtype).name.startswith("float8") else None
        return self.op("Cast", x, to=ir.DataType.from_numpy(np.dtype(dtype)), saturate=saturate)

    # ------------------------------------------------------------------------------------ graphs

    def value(self, value: Value) -> ir.Value:
        """Return the ONNX value of a graph value that is a constant or is already lowered.

        **Raises** `UnsupportedError` if the opset has no constants of the dtype.
        """
        if value.kind == "const":
            lowerings.check_dtype(value, self.node, self.opset)
            return self.const(value.const, value.dtype)
        return self.shared.values[id(value)]

    def lower(self, nodes: Iterable[Node]) -> None:
        """Lower nodes in order, each by its rule, and set the types of the results.

        **Raises** `ConverterError` if a rule does not return one value for each output, and
        `UnsupportedError` for a node that cannot be lowered, unless errors are collected.
        """
        for node in nodes:
            results = self._apply_rule(node)
            if len(results) != len(node.outputs):
                raise ConverterError(
                    f"the rule for '{node.op}' gave {len(results)} values for "
                    f"{len(node.outputs)} outputs"
                )
            for value, result in zip(node.outputs, results, strict=True):
                self.shared.values[id(value)] = result
                if result.producer() is not None:
                    set_type(result, value.shape, value.dtype)

    def _apply_rule(self, node: Node) -> Sequence[ir.Value]:
        """Return the ONNX values that the rule of a node emits.

        A node that cannot be lowered raises `UnsupportedError`. If errors are collected
        (``ModelState.errors``), the error is added to them, and the node gets placeholders, one for
        each output.
        """
        self.node = node
        try:
            for value in node.outputs:
                lowerings.check_dtype(value, node, self.opset)
            results = lowerings.apply(self, node, [self.value(v) for v in node.inputs])
        except UnsupportedError as error:
            if self.shared.errors is None:
                raise
            self.shared.errors.append(error)
            results = [ir.Value(name=self.shared.unused_name("refused")) for _ in node.outputs]
        self.node = node
        return [results] if isinstance(results, ir.Value) else results

    def inline(self, body: Graph, inputs: Sequence[ir.Value]) -> list[ir.Value]:
        """Lower the nodes of a body into this builder's graph, and return the ONNX values of the
        body's outputs.

        ``inputs`` are the ONNX values for the inputs of the body.
        """
        self.shared.values.update((id(v), x) for v, x in zip(body.inputs, inputs, strict=True))
        outer = self.node
        self.lower(body.nodes)
        self.node = outer
        return [self.value(v) for v in body.outputs]

    def nested(self) -> Builder:
        """Return a builder for a new subgraph of the same model."""
        return Builder(self.shared, ir.tape.Tape())

    def subgraph(
        self, name: str, body: Graph, extra: Sequence[tuple[str, Shape, Any]] = ()
    ) -> tuple[Builder, list[ir.Value]]:
        """Return a builder for a subgraph, and the inputs of the subgraph.

        The inputs are first ``extra`` (for each input a name, a shape and a dtype), then the inputs
        of the body. Their names begin with ``name`` and a number. The body is not lowered.
        """
        label = self.shared.unused_name(name)
        body_inputs = [(v.name or f"in_{i}", v.shape, v.dtype) for i, v in enumerate(body.inputs)]
        types = ((f"{label}_{stem}", shape, dtype) for stem, shape, dtype in (*extra, *body_inputs))
        return self.nested(), [
            set_type(ir.Value(name=n), shape, dtype) for n, shape, dtype in types
        ]

    def to_graph(
        self, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
    ) -> ir.Graph:
        """Return the ONNX graph with the nodes that this builder emitted.

        ``outputs`` become its outputs. A value that this builder did not emit, or that is listed
        twice, is copied first, as ONNX requires.
        """
        emitted = {id(o) for n in self.tape.nodes for o in n.outputs}
        results: list[ir.Value] = []
        for value in outputs:
            is_emitted = id(value) in emitted and value not in results
            results.append(value if is_emitted else self._copy(value))
        return ir.Graph(inputs, results, nodes=self.tape.nodes, name=self.shared.unused_name(name))

    def _copy(self, value: ir.Value) -> ir.Value:
        """Emit a copy of a value by ``Identity``, with the same dtype and shape."""
        copy = self.op("Identity", value)
        if value.dtype is not None:
            copy.dtype = value.dtype
        copy.shape = value.shape
        return copy
