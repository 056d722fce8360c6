"""Weight programs: values that depend only on parameters are evaluated when the file is saved."""

from collections import Counter
from dataclasses import replace

from converter.canonicalize import all_outputs, find_computable, values_read_outside
from converter.ir import Graph, Value, const
from converter.ir.evaluation import MAX_GROWTH_BYTES, compute_array, size_in_bytes
from converter.ir.names import Names
from converter.ir.origins import nodes_to_compute, sources
from converter.ir.rewrite import drop_dead

MAX_NAMES = 4
"""Largest number of parameters that the name of a weight program lists."""


def weight_values(graph: Graph) -> set[int]:
    """Return the ids of the parameters of a graph, and of the values that can be evaluated from
    parameters and constants alone when the file is saved.

    `find_computable` says which values are excluded, such as results of control flow and values
    with named sizes.
    """
    return {id(v) for v in graph.params} | find_computable(graph, ("const", "param"))


def move_weights_first(graph: Graph) -> None:
    """Move nodes that depend only on parameters and constants (`weight_values`) before all others,
    in place.

    All other nodes of the graph can then read their results. The bodies of nodes are sorted in the
    same way, each by itself.
    """
    weights = weight_values(graph)
    for part in (graph, *(body for node in graph.walk() for body in node.bodies.values())):
        part.nodes.sort(key=lambda node: not any(id(v) in weights for v in node.outputs))


def hoist_weight_programs(graph: Graph) -> Graph:
    """Replace values that depend only on parameters by new parameters, in place, and return the
    graph.

    The new parameter carries the nodes that compute the value, its weight program. The program is
    evaluated when the file is saved.

    A value is replaced if it is at most 1 MiB larger than its sources. Otherwise its last operation
    stays in the graph, and its operands are tried. A program of more than `MAX_DUPLICATE_BYTES` is
    also kept in the graph if it only moves the numbers of a parameter that the file contains
    anyway, so that no table is stored twice. A value of up to 1 MiB that depends only on constants
    is replaced by a constant. A result that is computed from one parameter which no other node
    reads keeps the name of that parameter. Parameters that are not read anymore are removed from
    the graph.
    """
    weights = weight_values(graph)
    kept_ids = {id(v) for v in values_read_outside(graph, weights) if v.kind == "param"}
    table: dict[int, Value] = {}
    copies: dict[int, Value] = {}
    queue = list(values_read_outside(graph, weights))
    visited: set[int] = set()
    while queue:
        value = queue.pop()
        if value.node is None or id(value) not in weights or id(value) in visited:
            continue
        visited.add(id(value))
        leaves = sources(value)
        is_larger = (
            size_in_bytes(value) > sum(map(size_in_bytes, leaves.values())) + MAX_GROWTH_BYTES
        )
        if is_larger or _only_moves_kept(value, leaves, kept_ids):
            queue.extend(value.node.inputs)
        elif size_in_bytes(value) > MAX_GROWTH_BYTES or any(
            v.kind == "param" for v in leaves.values()
        ):
            program = copy_program(value, copies)
            table[id(value)] = Value(value.shape, value.dtype, "param", value.name, program=program)
        else:
            table[id(value)] = const(compute_array(value, lambda v: v.const), value.dtype)
    graph.replace_operands(lambda v: table.get(id(v), v))
    drop_dead(graph)
    used = {id(v): v for n in graph.walk() for v in n.inputs if v.kind == "param"}
    used.update((id(v), v) for v in all_outputs(graph) if v.kind == "param")
    graph.params = list(used.values())
    _name_programs(graph.params, {*(v.name for v in graph.inputs), *graph.output_names})
    return graph


MAX_DUPLICATE_BYTES = 1 << 16
"""Size in bytes up to which a file may have a table twice."""


def _only_moves_kept(value: Value, leaves: dict[int, Value], kept_ids: set[int]) -> bool:
    """Return True if a value has only the numbers of one parameter that is in the file anyway, at
    other positions.

    False for values of at most ``MAX_DUPLICATE_BYTES``, which may be in the file twice.

    Arguments:
        value: the value.
        leaves: the parameters and constants that it is computed from, by id.
        kept_ids: ids of the parameters that are in the file.
    """
    if (
        size_in_bytes(value) <= MAX_DUPLICATE_BYTES
        or len(leaves) != 1
        or not leaves.keys() <= kept_ids
    ):
        return False
    visited: set[int] = set()
    for node in nodes_to_compute(value, visited):
        visited.update(id(output) for output in node.outputs)
        if not node.op.moves:
            return False
    return True


def copy_program(value: Value, copies: dict[int, Value]) -> Value:
    """Return a copy of a value, together with all nodes down to the parameters and constants that
    it is computed from.

    Parameters and constants are not copied. A value in the graph may be part of several programs.
    In the graph it reads the results of other programs, in the copy the values that these are
    computed from.

    Arguments:
        value: the value.
        copies: copies of other values by the id of the original. They are used again, and new
            copies are added.
    """
    for node in nodes_to_compute(value, copies):
        twin = replace(node, inputs=[copies.get(id(v), v) for v in node.inputs], outputs=[])
        twin.outputs = [replace(out, node=twin) for out in node.outputs]
        copies.update((id(a), b) for a, b in zip(node.outputs, twin.outputs, strict=True))
    return copies.get(id(value), value)


def _name_programs(params: list[Value], reserved: set[str]) -> None:
    """Name the parameters that have a weight program after the parameters that it reads, in place.

    A name that a pass has given is kept. A name that several programs would have is used for none
    of them; they get numbers. ``reserved`` are the names of the inputs and outputs of the graph.
    """
    parameter_names = [v.name for v in params if v.program is None]
    origins = [v.name or _origin_name(v) for v in params]
    shared = [name for name, count in Counter(origins).items() if count > 1]
    names = Names({*parameter_names, *reserved, *shared})
    for value, name in zip(params, origins, strict=True):
        if value.program is not None:
            value.name = names.take(name)


def _origin_name(value: Value) -> str:
    """Return a name made of the parameters that a value depends on: ``weight+bias``, or
    ``weight+4_more``.

    It is ``const`` if the value depends on constants alone.
    """
    leaves = sources(value.program or value)
    names = [v.name for v in leaves.values() if v.kind == "param"]
    listed_names = names if len(names) <= MAX_NAMES else [names[0], f"{len(names) - 1}_more"]
    return "+".join(listed_names) or "const"
