"""Find gathers and scatters that promise indices within bounds, although the program itself guards
against other indices.

A promise is ``mode="promise_in_bounds"``, which JAX sets for plain indexing. It is doubted

- if a selection, or a product with zeros and ones, excludes some elements of the gathered value,
- if this happens later, after products and norms, by a mask that tests the indices against bounds:
  ``net(x[i]) * (i < n)``,
- if another gather or scatter without a promise uses the same indices, which may be reshaped,
  sliced, concatenated, converted or counted from the end,
- if a mask computed from the indices of a scatter excludes some of its updates.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from jax import lax

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dims import Dim
from converter.ir.origins import operands_of_body_inputs
from converter.ir.ranges import known_range
from converter.ir.scalars import scalar
from converter.ir.windows import find_indexed_axes

Mode = lax.GatherScatterMode

KEEPS_ELEMENTS = frozenset(
    {
        *(op for op in ops.defined_ops() if op.elementwise or op.moves or op.reduces),
        *(ops.concatenate, ops.pad, ops.gather, ops.take, ops.dynamic_slice),
    }
)
"""Operations after which a mask can still select elements of the operands."""


ELEMENTWISE_OPS = frozenset(
    {*(op for op in ops.defined_ops() if op.elementwise or op.moves), ops.concatenate}
)
"""Operations whose result elements each depend on few elements of the operands."""


def unreliable_promises(graph: Graph) -> set[int]:
    """Return the ids of the gather and scatter nodes, also those in nested bodies, that promise
    indices within bounds although the program itself guards against indices out of bounds.

    A promise is ``mode="promise_in_bounds"``. The program guards against such indices if it masks
    some of the gathered or scattered elements, or if another gather or scatter uses the same
    indices without a promise. The cases are listed at the top of this module. The ids are those of
    Python's ``id``.
    """
    nodes = [n for n in graph.walk() if n.op is ops.gather or n.op in ops.SCATTERS]
    promises = [n for n in nodes if _has_promise(n)]
    if not promises:
        return set()
    body_operands = operands_of_body_inputs(graph)
    unpromised_roots = {
        root
        for n in nodes
        if not _has_promise(n)
        for root in index_roots(n.inputs[1], body_operands)
    }
    scatters = [n for n in promises if n.op is not ops.gather]
    doubted_ids = {id(n) for n in scatters if is_masked_by(n.inputs[2], n.inputs[1])}
    doubted_ids |= {
        id(n) for n in promises if index_roots(n.inputs[1], body_operands) & unpromised_roots
    }
    masked_ids = masked_values(graph)
    gathers = [n for n in promises if n.op is ops.gather and id(n) not in doubted_ids]
    doubted_ids |= {id(n) for n in gathers if id(n.out) in masked_ids}
    return doubted_ids | _find_gathers_masked_by_tests(
        [n for n in gathers if id(n) not in doubted_ids], graph, body_operands
    )


def _has_promise(node: Node) -> bool:
    """Return True if a gather or scatter promises that its indices are within bounds."""
    return Mode.from_any(node.params["mode"]) == Mode.PROMISE_IN_BOUNDS


def index_roots(indices: Value, body_operands: Mapping[int, Value]) -> set[int]:
    """Return the ids of the values that indices are copied from, through moves, concatenations and
    conversions.

    Negative indices may have been counted from the end: the root of ``where(i < 0, i + n, i)`` is
    ``i``. ``body_operands`` contains the operand of the loop or branch for each input of a body, by
    id.
    """
    return {
        id(v)
        for v in _collect_sources([indices], body_operands, _index_sources)
        if not _index_sources(v)
    }


def _index_sources(value: Value) -> list[Value]:
    """Return the operands that an index is copied from, or none if it is computed.

    Of the selection ``where(i < 0, i + n, i)`` this is ``i``, the case from which another case is
    computed. Constants and iotas in a concatenation are left out.
    """
    node = value.node
    if node is None:
        return []
    if node.op is ops.concatenate:
        return [v for v in node.inputs if v.kind != "const" and v.producer_if(ops.iota) is None]
    if node.op.moves or node.op is ops.convert_element_type:
        return node.inputs[:1]
    if node.op is ops.select_n:
        cases = node.inputs[1:]
        original_cases = [v for v in cases if any(w.node and v in w.node.inputs for w in cases)]
        return original_cases[:1]
    return []


def _find_gathers_masked_by_tests(
    gathers: Sequence[Node], graph: Graph, body_operands: Mapping[int, Value]
) -> set[int]:
    """Return the ids of the gathers whose elements out of bounds a mask excludes.

    The mask may be applied to the result of the gather, or to a value that is computed from it. It
    must test the indices of the gather against bounds (`_tests_bounds`).
    """
    masked_ids: set[int] = set()
    nodes = graph.walk() if gathers else ()
    operands = [pair for n in nodes for pair in (*_masked_operands(n), *_contraction_operands(n))]
    for mask, value in operands:
        tested = [
            n for n in gathers if id(n) not in masked_ids and _tests_bounds(mask, n, body_operands)
        ]
        if tested:
            source_ids = {
                id(v) for v in _collect_sources([value], body_operands, _operands_with_body_results)
            }
            masked_ids |= {id(n) for n in tested if id(n.out) in source_ids}
    return masked_ids


def _tests_bounds(mask: Value, gather: Node, body_operands: Mapping[int, Value]) -> bool:
    """Return True if a mask is computed from a comparison that separates the indices of a gather
    that are out of bounds from its other indices."""
    roots, (_, limits) = index_roots(gather.inputs[1], body_operands), find_indexed_axes(gather)
    compared = [
        v
        for v in _collect_sources([mask], body_operands, _mask_sources)
        if v.producer_if(*COMPARISONS)
    ]
    return any(
        _tests_index(v.node, roots, limits, body_operands) for v in compared if v.node is not None
    )


def _tests_index(
    node: Node, roots: set[int], limits: Sequence[Dim], body_operands: Mapping[int, Value]
) -> bool:
    """Return True if a comparison may separate indices out of bounds from others.

    One operand must be an index: its root is in ``roots``. A test for equality with a number from 0
    to ``limits`` does not count, because it finds an index within bounds.
    """
    for index, other in (node.inputs, node.inputs[::-1]):
        if index_roots(index, body_operands) & roots:
            number = scalar(other)
            is_within_bounds = number is not None and all(
                dims.is_at_least(d - number, 0) for d in limits
            )
            return not (
                node.op in (ops.eq, ops.ne)
                and is_within_bounds
                and number is not None
                and number >= 0
            )
    return False


COMPARISONS = (ops.lt, ops.le, ops.gt, ops.ge, ops.eq, ops.ne)


def _mask_sources(value: Value) -> list[Value]:
    """Return the operands of an elementwise operation, a move, or a reduction by "any" or "all",
    else none."""
    node = value.node
    is_followed = node is not None and (
        node.op in ELEMENTWISE_OPS or node.op in (ops.reduce_and, ops.reduce_or)
    )
    return node.inputs if node is not None and is_followed else []


def _operands_with_body_results(value: Value) -> list[Value]:
    """Return the operands of the node that computes a value, and the results of its bodies."""
    node = value.node
    if node is None:
        return []
    results = [v for b in node.bodies.values() for v in b.outputs]
    return [*node.inputs, *results]


def _collect_sources(
    values: Sequence[Value],
    body_operands: Mapping[int, Value],
    sources: Callable[[Value], Sequence[Value]],
) -> list[Value]:
    """Return the values and everything that they are computed from, as far as ``sources`` leads.

    ``sources`` returns the operands to follow from a value. An input of a body leads to the operand
    outside of it, which ``body_operands`` contains by id.
    """
    visited: dict[int, Value] = {}
    stack = [*values]
    while stack:
        value = stack.pop()
        if id(value) not in visited:
            visited[id(value)] = value
            stack += [body_operands[id(value)]] if id(value) in body_operands else sources(value)
    return list(visited.values())


def masked_values(graph: Graph) -> set[int]:
    """Return the ids of the values from which a selection or a mask excludes elements.

    These are the operands of the selection or product, and the values from which they are computed
    by operations that keep elements apart (`KEEPS_ELEMENTS`). Bodies are included.
    """
    nodes = list(graph.walk())
    body_operands = operands_of_body_inputs(graph)
    stack = [value for node in nodes for _, value in _masked_operands(node)]
    masked_ids: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in masked_ids:
            continue
        masked_ids.add(id(value))
        if value.node is None:
            stack += [body_operands[id(value)]] if id(value) in body_operands else []
        elif value.node.op in KEEPS_ELEMENTS:
            stack += value.node.inputs
        for body in value.node.bodies.values() if value.node is not None else ():
            stack += body.outputs[value.index : value.index + 1]
    return masked_ids


def _masked_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield pairs of a mask and an operand from which the mask may exclude elements.

    A mask is the condition of a selection, or a factor of a product that is from 0 to 1 and may be
    0. The operand is a case of the selection, or the other factor.
    """
    if node.op is ops.select_n:
        yield from ((node.inputs[0], case) for case in _excludable_cases(node.inputs[1:]))
    if node.op is ops.mul:
        yield from _multiplied_operands(node)


def _multiplied_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield a factor that is from 0 to 1 and may be 0, with the other factor."""
    for value, mask in (node.inputs, node.inputs[::-1]):
        numbers = known_range(mask)
        if numbers.within(0, 1) and not numbers.misses(0):
            yield mask, value


def _contraction_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield pairs of a mask and an operand if the node is a contraction, else none.

    The mask is a factor that is from 0 to 1 and may be 0. It excludes elements of the other factor,
    because the sums ignore products with zero.
    """
    if node.op is ops.einsum:
        yield from _multiplied_operands(node)


def _excludable_cases(cases: list[Value]) -> Iterator[Value]:
    """Yield the cases of a selection. The cases ``i + n`` and ``i`` of ``where(i < 0, i + n, i)``
    are left out.

    If a case is computed from another case, neither of them is yielded, but the other operands of
    that computation (here ``n``).
    """
    read = [{id(v) for v in (case.node.inputs if case.node is not None else ())} for case in cases]
    base_cases = {id(case) for case in cases if any(id(case) in ids for ids in read)}
    for case, ids in zip(cases, read, strict=True):
        if case.node is None or not ids & base_cases:
            yield from () if id(case) in base_cases else (case,)
        else:
            yield from (v for v in case.node.inputs if id(v) not in base_cases)


def is_masked_by(updates: Value, indices: Value) -> bool:
    """Return True if a mask that is computed from the indices of a scatter excludes some of its
    updates."""
    index_ids = {id(value) for value in _elementwise_sources([indices]) if value.kind != "const"}
    producers = (value.node for value in _elementwise_sources([updates]) if value.node is not None)
    masks = [mask for node in producers for mask, _ in _masked_operands(node)]
    return any(id(value) in index_ids for value in _elementwise_sources(masks))


def _elementwise_sources(values: Sequence[Value]) -> list[Value]:
    """Return the values and everything that they are computed from by elementwise operations, moves
    or concatenations."""
    sources = {id(value): value for value in values}
    stack = [*values]
    while stack:
        node = stack.pop().node
        if node is not None and node.op in ELEMENTWISE_OPS:
            new_operands = [operand for operand in node.inputs if id(operand) not in sources]
            sources |= {id(operand): operand for operand in new_operands}
            stack += new_operands
    return list(sources.values())
