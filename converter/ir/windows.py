"""Windows of gathers and scatters, each of which starts at an index vector."""

from typing import Any, NamedTuple

from converter.ir import dims, ops
from converter.ir.dims import Dim, Shape
from converter.ir.nodes import Node


class IndexedAxes(NamedTuple):
    """The axes of an operand that index vectors address.

    ``limits`` contains the largest start of a window along each of ``axes``.
    """

    axes: tuple[int, ...]
    limits: list[Dim]


def find_indexed_axes(node: Node) -> IndexedAxes:
    """Return the axes of the operand that the indices of a gather or scatter address, in the order
    of the entries of an index vector.

    ``limits`` of the result has the largest start of a window along each of them: the size of the
    axis less that of the window.
    """
    x, numbers = node.inputs[0], node.params["dimension_numbers"]
    if node.op is ops.gather:
        axes, sizes = numbers.start_index_map, node.params["slice_sizes"]
    else:
        axes = numbers.scatter_dims_to_operand_dims
        sizes = scatter_window(numbers, x.rank, node.inputs[2].shape)
    return IndexedAxes(axes, [dims.as_dim(x.shape[axis] - sizes[axis]) for axis in axes])


def scatter_window(numbers: Any, rank: int, updates: Shape) -> Shape:
    """Return the size of the window that one index vector of a scatter writes, along every axis of
    the operand.

    ``numbers`` are JAX's dimension numbers of the scatter. ``rank`` is that of the operand, and
    ``updates`` is the shape of the updates.
    """
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter(numbers.update_window_dims)
    return tuple(1 if d in single else updates[next(sizes)] for d in range(rank))
