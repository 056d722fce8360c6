"""Join two models: the outputs of the first become the inputs of the second."""

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from converter.errors import SpecError
from converter.ir.names import Names
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target

NamedItem = ir.Value | ir.Node


def join(first: ir.Model, second: ir.Model, target: str = DEFAULT_TARGET) -> ir.Model:
    """Join two models in place, and return ``second``, to which the nodes, inputs and initializers
    of ``first`` are moved.

    The outputs of ``first`` become the inputs of ``second``, in order and with the names of the
    latter. Other names of ``first`` get a number if ``second`` has them too. Initializers are moved
    without being read. The metadata is that of ``second``.

    Arguments:
        first: the model whose outputs are passed on. Its graph is empty afterwards.
        second: the second model, which is changed into the joined model.
        target: the target that the models were converted for. Its quirks are avoided again.

    Raises:
        SpecError: the outputs of ``first`` have other dtypes or shapes than the inputs of
            ``second``, the opsets differ, or a model has functions of its own.
    """
    _check(first, second)
    before, after = first.graph, second.graph
    first_values = [value for value in _values(before) if value not in before.outputs]
    _rename_duplicates(first_values, list(_values(after)))
    _rename_duplicates(list(before.all_nodes()), list(after.all_nodes()))
    for output, input_ in zip(before.outputs, after.inputs, strict=True):
        output.name = input_.name
        ir.convenience.replace_all_uses_with(input_, output)
    inputs, nodes = list(before.inputs), list(before)
    initializers = list(before.initializers.values())
    for part in (before.inputs, before.outputs, before.initializers, after.inputs):
        part.clear()
    before.remove(nodes)
    after.inputs.extend(inputs)
    after.insert_before(after[0], nodes)
    after.initializers.update({str(value.name): value for value in initializers})
    # An input of a matrix product may now be the result of other nodes. The quirks depend on this.
    find_target(target).remove_quirks(second)
    return second


def _check(first: ir.Model, second: ir.Model) -> None:
    """Raise `SpecError` if two models cannot be joined.

    They can if the opsets are equal, no model has functions of its own, and the outputs of
    ``first`` have the dtypes and shapes of the inputs of ``second``.
    """
    if first.functions or second.functions:
        raise SpecError("models with functions of their own cannot be joined: inline these first")
    if first.opset_imports != second.opset_imports:
        raise SpecError(
            f"models of opsets {dict(first.opset_imports)} and {dict(second.opset_imports)} cannot "
            "be joined: convert both for the same"
        )
    outputs, inputs = _types(first.graph.outputs), _types(second.graph.inputs)
    if outputs != inputs:
        raise SpecError(
            f"the first model gives {', '.join(outputs)} and the second takes {', '.join(inputs)}: "
            "join models that fit"
        )


def _types(values: Sequence[ir.Value]) -> list[str]:
    """Return the dtype and shape of each value as a text."""
    return [f"{value.dtype}{value.shape}" for value in values]


def _rename_duplicates(items: Sequence[NamedItem], other_items: Sequence[NamedItem]) -> None:
    """Give a new name to each of the items whose name is also a name in ``other_items``, in
    place."""
    taken_names = {str(item.name) for item in other_items}
    names = Names({*taken_names, *(str(item.name) for item in items)})
    for item in items:
        if item.name in taken_names:
            item.name = names.take(str(item.name))


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield all values of a graph and of its subgraphs, which share one namespace."""
    for inner in (graph, *graph.subgraphs()):
        yield from inner.inputs
        yield from inner.initializers.values()
    for node in graph.all_nodes():
        yield from node.outputs
