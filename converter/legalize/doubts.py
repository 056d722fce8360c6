"""Where a program itself expects indices that are out of bounds, whatever it promises.

A gather or a scatter with a promise is doubted

- where a selection, or a product with zeros and ones, leaves out elements of what was gathered,
- where it does so further behind, through products and norms, by a mask that tells indices out of
  bounds from others: ``net(x[i]) * (i < n)``,
- where a gather or a scatter without a promise takes the same indices, which may be reshaped,
  sliced, joined, converted or counted from the end,
- where a mask of what its indices are made of leaves out some of the updates of a scatter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from jax import lax

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dims import Dim
from converter.ir.origins import given_to_bodies
from converter.ir.ranges import known_range
from converter.ir.scalars import scalar
from converter.ir.windows import pointed

Mode = lax.GatherScatterMode

KEEPS_APART = frozenset(
    {
        *(op for op in ops.stated() if op.elementwise or op.moves or op.reduces),
        *(ops.concatenate, ops.pad, ops.gather, ops.take, ops.dynamic_slice),
    }
)
"""Operations behind which a mask still tells elements of the operands from each other."""


WEAVES = frozenset({*(op for op in ops.stated() if op.elementwise or op.moves), ops.concatenate})
"""Operations each element of whose results is made of few elements of the operands."""


def doubted(graph: Graph) -> set[int]:
    """Return the ids of gathers and scatters whose promise the program itself does not trust."""
    nodes = [n for n in graph.walk() if n.op is ops.gather or n.op in ops.SCATTERS]
    promises = [n for n in nodes if _promises(n)]
    if not promises:
        return set()
    outside = given_to_bodies(graph)
    elsewhere = {
        root for n in nodes if not _promises(n) for root in index_roots(n.inputs[1], outside)
    }
    scatters = [n for n in promises if n.op is not ops.gather]
    found = {id(n) for n in scatters if is_masked_by(n.inputs[2], n.inputs[1])}
    found |= {id(n) for n in promises if index_roots(n.inputs[1], outside) & elsewhere}
    near = masked(graph)
    gathers = [n for n in promises if n.op is ops.gather and id(n) not in found]
    found |= {id(n) for n in gathers if id(n.out) in near}
    return found | _masked_far_behind([n for n in gathers if id(n) not in found], graph, outside)


def _promises(node: Node) -> bool:
    return Mode.from_any(node.params["mode"]) == Mode.PROMISE_IN_BOUNDS


def index_roots(indices: Value, outside: Mapping[int, Value]) -> set[int]:
    """Return the ids of the values that indices are taken from, unchanged but for where they are.

    Negative indices may have been counted from the end: ``where(i < 0, i + n, i)`` is from ``i``.
    """
    return {id(v) for v in _behind([indices], outside, _index_sources) if not _index_sources(v)}


def _index_sources(value: Value) -> list[Value]:
    node = value.node
    if node is None:
        return []
    if node.op is ops.concatenate:
        return [v for v in node.inputs if v.kind != "const" and v.made_by(ops.iota) is None]
    if node.op.moves or node.op is ops.convert_element_type:
        return node.inputs[:1]
    if node.op is ops.select_n:
        cases = node.inputs[1:]
        kept = [v for v in cases if any(w.node and v in w.node.inputs for w in cases)]
        return kept[:1]
    return []


def _masked_far_behind(
    gathers: Sequence[Node], graph: Graph, outside: Mapping[int, Value]
) -> set[int]:
    """ids of gathers behind which, however far, a mask leaves out what is out of bounds."""
    found: set[int] = set()
    nodes = graph.walk() if gathers else ()
    operands = [pair for n in nodes for pair in (*_masked_operands(n), *_summed_operands(n))]
    for mask, value in operands:
        telling = [n for n in gathers if id(n) not in found and _tells_bounds(mask, n, outside)]
        if telling:
            behind = {id(v) for v in _behind([value], outside, _operands_of)}
            found |= {id(n) for n in telling if id(n.out) in behind}
    return found


def _tells_bounds(mask: Value, gather: Node, outside: Mapping[int, Value]) -> bool:
    """Whether a mask is made of comparisons that tell some indices out of bounds from others."""
    roots, (_, limits) = index_roots(gather.inputs[1], outside), pointed(gather)
    compared = [v for v in _behind([mask], outside, _mask_sources) if v.made_by(*COMPARISONS)]
    return any(_tells_index(v.node, roots, limits, outside) for v in compared if v.node is not None)


def _tells_index(
    node: Node, roots: set[int], limits: Sequence[Dim], outside: Mapping[int, Value]
) -> bool:
    """Whether one side is an index, and the other not a number within bounds that it equals."""
    for index, other in (node.inputs, node.inputs[::-1]):
        if index_roots(index, outside) & roots:
            number = scalar(other)
            inside = number is not None and all(dims.is_at_least(d - number, 0) for d in limits)
            return not (
                node.op in (ops.eq, ops.ne) and inside and number is not None and number >= 0
            )
    return False


COMPARISONS = (ops.lt, ops.le, ops.gt, ops.ge, ops.eq, ops.ne)


def _mask_sources(value: Value) -> list[Value]:
    """What a mask is made of, element by element or by whether some or all elements are true."""
    node = value.node
    passes = node is not None and (node.op in WEAVES or node.op in (ops.reduce_and, ops.reduce_or))
    return node.inputs if node is not None and passes else []


def _operands_of(value: Value) -> list[Value]:
    """What a value is computed from, in bodies too."""
    node = value.node
    if node is None:
        return []
    results = [v for b in node.bodies.values() for v in b.outputs]
    return [*node.inputs, *results]


def _behind(
    values: Sequence[Value],
    outside: Mapping[int, Value],
    sources: Callable[[Value], Sequence[Value]],
) -> list[Value]:
    """Values and what they are made from, out of bodies too, each once."""
    visited: dict[int, Value] = {}
    stack = [*values]
    while stack:
        value = stack.pop()
        if id(value) not in visited:
            visited[id(value)] = value
            stack += [outside[id(value)]] if id(value) in outside else sources(value)
    return list(visited.values())


def masked(graph: Graph) -> set[int]:
    """ids of the values of which a selection or a mask leaves elements out, bodies included."""
    nodes = list(graph.walk())
    outside = given_to_bodies(graph)
    stack = [value for node in nodes for _, value in _masked_operands(node)]
    found: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in found:
            continue
        found.add(id(value))
        if value.node is None:
            stack += [outside[id(value)]] if id(value) in outside else []
        elif value.node.op in KEEPS_APART:
            stack += value.node.inputs
        for body in value.node.bodies.values() if value.node is not None else ():
            stack += body.outputs[value.index : value.index + 1]
    return found


def _masked_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    """Masks with the operands whose elements they may leave out: the cases of a choice, and what
    is multiplied by zeros."""
    if node.op is ops.select_n:
        yield from ((node.inputs[0], case) for case in _cases(node.inputs[1:]))
    if node.op is ops.mul:
        yield from _multiplied_operands(node)


def _multiplied_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    for value, mask in (node.inputs, node.inputs[::-1]):
        numbers = known_range(mask)
        if numbers.within(0, 1) and not numbers.misses(0):
            yield mask, value


def _summed_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    """The same of a contraction, whose sums leave out the products with zeros."""
    if node.op is ops.einsum:
        yield from _multiplied_operands(node)


def _cases(cases: list[Value]) -> Iterator[Value]:
    """Cases of a choice, but for one that another is made of: ``where(i < 0, i + n, i)``."""
    read = [{id(v) for v in (case.node.inputs if case.node is not None else ())} for case in cases]
    kept = {id(case) for case in cases if any(id(case) in ids for ids in read)}
    for case, ids in zip(cases, read, strict=True):
        if case.node is None or not ids & kept:
            yield from () if id(case) in kept else (case,)
        else:
            yield from (v for v in case.node.inputs if id(v) not in kept)


def is_masked_by(updates: Value, indices: Value) -> bool:
    """Whether a mask of what the indices are made of leaves out some of the updates."""
    places = {id(value) for value in _woven([indices]) if value.kind != "const"}
    made = (value.node for value in _woven([updates]) if value.node is not None)
    masks = [mask for node in made for mask, _ in _masked_operands(node)]
    return any(id(value) in places for value in _woven(masks))


def _woven(values: Sequence[Value]) -> list[Value]:
    """Values and what they are made of, element by element."""
    seen = {id(value): value for value in values}
    waiting = [*values]
    while waiting:
        node = waiting.pop().node
        if node is not None and node.op in WEAVES:
            fresh = [operand for operand in node.inputs if id(operand) not in seen]
            seen |= {id(operand): operand for operand in fresh}
            waiting += fresh
    return list(seen.values())
