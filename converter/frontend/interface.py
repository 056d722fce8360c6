"""The function to convert, and the relation of its inputs and outputs to the inputs and outputs of
the file."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import export
from jax.extend.core import jaxpr_as_fun

from converter.errors import SpecError
from converter.frontend.array_forms import node_appender
from converter.frontend.specs import Fill, Spec, parse_arguments
from converter.frontend.trace import trace
from converter.ir import Graph, Value, make_node, ops
from converter.ir.names import Names


@dataclass(frozen=True)
class Interface:
    """Conversion between the inputs and outputs of a file and the inputs and outputs of the user's
    function.

    Arguments:
        fill: returns the positional and the keyword arguments of the function for a list of its
            arrays.
        inputs: indices of the inputs whose axes are [batch, space…, channels] in the function and
            [batch, channels, space…] in the file.
        outputs: indices of the outputs with such axes.
    """

    fill: Fill = lambda arrays: (tuple(arrays), {})
    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()

    def to_file_arrays(self, arrays_or_numbers: Sequence[Any]) -> list[Any]:
        """Return the arrays for the inputs of the file.

        ``arrays_or_numbers`` are the function's arrays or Python numbers, in the order of the
        inputs and with the function's axes. PRNG keys and complex numbers are returned as they are.
        """
        numbers = (bool, int, float, complex)
        arrays: list[Any] = [
            jax.numpy.asarray(a) if isinstance(a, numbers) else a for a in arrays_or_numbers
        ]
        return [np.moveaxis(a, -1, 1) if i in self.inputs else a for i, a in enumerate(arrays)]

    def wrap(self, fn: Callable[..., Any]) -> Callable[..., list[Any]]:
        """Return a function that calls ``fn`` with the arrays of the file's inputs, as positional
        arguments.

        It passes the arrays to ``fn`` as its own arguments, with its own axes, and returns the list
        of its results with the axes of the file's outputs. PRNG keys and complex numbers among the
        results are returned as they are.
        """
        moved = jax.numpy.moveaxis

        def call(*arrays: Any) -> list[Any]:
            channels_last = [
                moved(a, 1, -1) if i in self.inputs else a for i, a in enumerate(arrays)
            ]
            positional, named = self.fill(channels_last)
            results = jax.tree.leaves(fn(*positional, **named))
            return [moved(r, -1, 1) if i in self.outputs else r for i, r in enumerate(results)]

        return call


@dataclass(frozen=True)
class ConvertedFunction:
    """The arguments of ``to_onnx`` that define the function and the names of its inputs and
    outputs.

    ``to_onnx`` describes them. ``channels_first`` contains the names of inputs and outputs that are
    [batch, space…, channels] in the function and [batch, channels, space…] in the file.
    """

    fn: Callable[..., Any]
    specs: Sequence[Spec] | None = None
    _: KW_ONLY
    params: Any = None
    kwargs: Mapping[str, Any] | None = None
    constraints: Sequence[str] = ()
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    channels_first: Collection[str] = ()

    @property
    def call(self) -> Callable[..., Any]:
        """The function of its inputs only: ``params`` are bound as the first argument, if there are
        any."""
        fn, _, _ = unwrap_traced(self.fn, self.specs, self.kwargs)
        return fn if self.params is None else partial(fn, self.params)

    def trace(self, kept_calls: frozenset[str] = frozenset()) -> Graph:
        """Return the graph of the function before any pass, with the inputs and outputs of the
        file.

        Calls of functions under ``jax.jit`` whose names are in ``kept_calls`` become nodes with a
        body. Other calls are inlined.

        Raises:
            SpecError: an argument cannot be used.
            UnsupportedError: the function cannot be traced, or uses a primitive that is never
                converted.
        """
        fn, specs, kwargs = unwrap_traced(self.fn, self.specs, self.kwargs)
        graph = trace(fn, specs, self.params, kwargs, self.constraints, kept_calls)
        _rename_values(graph, self.input_names, self.output_names)
        _move_channels_first(graph, self.channels_first)
        return graph

    def interface(self, graph: Graph) -> Interface:
        """Return the conversion between the inputs and outputs of the file and those of the
        function. ``graph`` is a result of ``trace``."""
        _, specs, kwargs = unwrap_traced(self.fn, self.specs, self.kwargs)
        return Interface(
            parse_arguments(specs, kwargs, self.constraints).fill,
            frozenset(_indices_of_names([v.name for v in graph.inputs], self.channels_first)),
            frozenset(_indices_of_names(graph.output_names, self.channels_first)),
        )


def _indices_of_names(names: Sequence[str], selected: Collection[str]) -> list[int]:
    """Return the positions in ``names`` of the selected ones. A selected name that is missing there
    is ignored."""
    return [i for i, name in enumerate(names) if name in selected]


def _move_channels_first(graph: Graph, names: Collection[str]) -> None:
    """Transpose inputs and outputs from [batch, space…, channels] to [batch, channels, space…], in
    place.

    ``names`` are names of inputs and outputs of the graph.

    Raises:
        SpecError: there is no input or output of a name, or it has fewer than three axes.
    """
    names_of_file = [*(v.name for v in graph.inputs), *graph.output_names]
    if isinstance(names, str) or set(names) - set(names_of_file):
        raise SpecError(
            f"channels_first must be a list of inputs and outputs, of {', '.join(names_of_file)}; "
            f"received {names!r}"
        )
    table: dict[int, Value] = {}
    for position in _indices_of_names([v.name for v in graph.inputs], names):
        inner = graph.inputs[position]
        to_channels_first, to_channels_last = _channel_permutations(inner, inner.name)
        outer = Value(
            tuple(inner.shape[a] for a in to_channels_first), inner.dtype, "input", inner.name
        )
        node = make_node(
            ops.transpose, [outer], [(inner.shape, inner.dtype)], {"permutation": to_channels_last}
        )
        graph.inputs[position], table[id(inner)] = outer, node.out
        graph.nodes.insert(0, node)
    graph.replace_operands(lambda v: table.get(id(v), v))
    for position in _indices_of_names(graph.output_names, names):
        inner = graph.outputs[position]
        to_channels_first, _ = _channel_permutations(inner, graph.output_names[position])
        graph.outputs[position] = node_appender(graph.nodes).transpose(inner, to_channels_first)


def _channel_permutations(value: Value, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the permutation from [batch, space…, channels] to [batch, channels, space…], and its
    inverse.

    Raises:
        SpecError: the value has fewer than three axes. The message has ``name``.
    """
    rank = value.rank
    if rank < 3:
        raise SpecError(
            f"channels_first is for [batch, space..., channels], and {name!r} is "
            f"{value.type_text()}; leave it out"
        )
    return (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)


def _rename_values(
    graph: Graph, inputs: Sequence[str] | None, outputs: Sequence[str] | None
) -> None:
    """Set the names of a graph's inputs and outputs, in place.

    Arguments:
        inputs: names for all inputs, or None to keep those found in the function.
        outputs: names for all outputs, or None to keep those found in the function.

    A name that was found gets a number if a parameter, an earlier input or output, or a name in
    ``inputs`` or ``outputs`` is equal. Parameters keep their names, because their values are found
    by name.

    Raises:
        SpecError: there are more or fewer names than inputs or outputs, or a given name occurs
            twice or is that of a parameter.
    """
    for names, count, argument in (
        (inputs, len(graph.inputs), "input_names"),
        (outputs, len(graph.outputs), "output_names"),
    ):
        if names is not None and (len(names) != count or len(set(names)) != count):
            raise SpecError(f"{argument} needs {count} different names, received {list(names)}")
    explicit = [*(inputs or ()), *(outputs or ())]
    fixed = [*(v.name for v in graph.params), *explicit]
    duplicates = [name for name, times in Counter(fixed).items() if times > 1]
    if duplicates:
        raise SpecError(
            f"{duplicates[0]!r} can name only one of a model's parameters, inputs and outputs; "
            "pass another name in input_names or output_names"
        )
    unused_names = Names(fixed)
    names_of_function = [v.name for v in graph.inputs] if inputs is None else []
    for value, name in zip(
        graph.inputs, inputs or map(unused_names.take, names_of_function), strict=True
    ):
        value.name = name
    graph.output_names = list(outputs or map(unused_names.take, graph.output_names))


def unwrap_traced(
    fn: Callable[..., Any], specs: Sequence[Spec] | None, kwargs: Mapping[str, Any] | None
) -> tuple[Callable[..., Any], Sequence[Spec], Mapping[str, Any] | None]:
    """Return a function that JAX can trace, the specs of its inputs, and its keyword arguments.

    For the result of ``jax.jit(fn).trace(...)`` these are taken from the trace. For other functions
    the arguments are returned unchanged.

    Raises:
        SpecError: specs are missing, or specs or keyword arguments were passed for a trace that has
            its own, or the function is an ``Exported``, which holds no operations of JAX.
    """
    if isinstance(fn, export.Exported):
        raise SpecError(
            "an Exported holds StableHLO and not the operations of JAX: convert the function that "
            "it was made from, or what jax.jit(function).trace(...) gives"
        )
    if not isinstance(fn, jax.stages.Traced):
        if specs is None:
            raise SpecError("specs must be a list with one entry per input, received None")
        return fn, specs, kwargs
    if specs is not None or kwargs:
        raise SpecError("a Traced has its own inputs: leave out specs and kwargs")
    run, out_tree = jaxpr_as_fun(fn.jaxpr), jax.tree.structure(fn.out_info)

    def call(*args: Any, **named: Any) -> Any:
        return jax.tree.unflatten(out_tree, run(*jax.tree.leaves((args, named))))

    args, named = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), fn.args_info)
    return call, list(args), named
