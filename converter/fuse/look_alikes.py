"""What looks like a structure that has a name, however it is spelled.

Nothing is proved here: of what a recogniser left the report says why, and of what no recogniser
looked at that it was not known in this spelling.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from converter.fuse.dependence import bound_scalar
from converter.fuse.match import (
    CARRIERS,
    DEEPEST_SEARCH,
    UNKNOWN,
    Uses,
    carried_from,
    operand,
    operands,
    peel,
    whole,
)
from converter.fuse.product_terms import exponent, mean_of, real
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.axes import View


def attention_like(graph: Graph, uses: Uses) -> Iterator[tuple[Node, str]]:
    """Second products: exponentials of what a product gave, which are summed too, times values."""
    nodes = [*graph.walk()]
    sums = (node for node in nodes if node.op is ops.reduce_sum)
    summed = {id(inner) for node in sums for inner in _exps(node) if inner is not node}
    for node in nodes:
        if node.op is not ops.einsum:
            continue
        for value in node.inputs:
            exps = [] if value.node is None else [*_exps(value.node)]
            if any(_is_softmax_of_product(n, summed) for n in exps):
                yield node, _between(value, exps)
                break


def _between(value: Value, exps: Sequence[Node]) -> str:
    op = peel(whole(value), rounding=True).op()
    if all(n.op is not ops.softmax for n in exps):
        return "its softmax is written in a way that is not known"
    return (
        UNKNOWN if op is ops.softmax else f"between the softmax and the second product stands {op}"
    )


def _exps(node: Node) -> Iterator[Node]:
    return (n for n in carried_from(node) if n.op in (ops.exp, ops.softmax))


def _is_softmax_of_product(node: Node, summed: set[int]) -> bool:
    above = carried_from(node, (ops.reduce_max, ops.exp, ops.softmax, *_LOGARITHMS))
    operations = {n.op for n in above}
    normal = node.op is ops.softmax or id(node) in summed or operations & _LOGARITHMS
    return bool(normal) and ops.einsum in operations


_LOGARITHMS = {ops.log_softmax, ops.log}


def layer_norm_like(graph: Graph, uses: Uses) -> Iterator[tuple[Node, str]]:
    return ((node, _why(node)) for node, centred in _norm_like(graph, uses) if centred)


def rms_norm_like(graph: Graph, uses: Uses) -> Iterator[tuple[Node, str]]:
    return ((node, _why(node)) for node, centred in _norm_like(graph, uses) if not centred)


def _why(root: Node) -> str:
    inside = peel(whole(root.inputs[0]), rounding=True)
    if inside.op() is not ops.add:
        return "no epsilon is added within the root"
    numbers = [bound_scalar(part.base) for part in operands(inside)]
    unknown = "what is added within the root is no number that is known"
    return UNKNOWN if any(number is not None for number in numbers) else unknown


def _norm_like(graph: Graph, uses: Uses) -> Iterator[tuple[Node, bool]]:
    """Roots of a mean of squares by which what is squared is divided, or multiplied; and whether
    that is centred."""
    roots = [node for node in graph.walk() if node.op in (ops.rsqrt, ops.sqrt, ops.pow)]
    squared = [(node, _squared(whole(node.inputs[0]), uses)) for node in roots]
    readers = _readers(graph) if any(mean is not None for _, mean in squared) else {}
    for node, mean in squared:
        partner = None if mean is None else _partner(node, _uncentred(mean.base), readers)
        if partner is not None:
            yield node, peel(whole(partner), rounding=True).op() is ops.sub


def _squared(inside: View, uses: Uses) -> View | None:
    """What a mean of squares is that of, perhaps with an epsilon, or less the mean's own square."""
    inside = peel(inside, rounding=True)
    parts = operands(inside) if inside.op() in (ops.add, ops.max) else [inside]
    for part in parts:
        moments = part.op() is ops.sub
        mean = mean_of(operand(part, 0) if moments else part, uses)
        if mean is None or exponent(mean.summed.view) != 2:
            continue
        counts = [d for d in mean.summed.sizes if not dims.same(d, 1)]
        if counts and not (mean.factor.is_near(1) and not mean.factor.divisors):
            return real(operand(mean.summed.view, 0, rounding=True))
    return None


def _readers(graph: Graph) -> dict[int, list[Node]]:
    table: dict[int, list[Node]] = {}
    for node in graph.walk():
        for value in node.inputs:
            table.setdefault(id(value), []).append(node)
    return table


def _partner(root: Node, source: Value, readers: dict[int, list[Node]]) -> Value | None:
    """What of a source is multiplied with a root, or with what is carried on from that."""
    seen, waiting = {id(root)}, [root]
    for node in islice(iter(waiting), DEEPEST_SEARCH):
        for reader in readers.get(id(node.out), ()):
            others = [v for v in reader.inputs if v is not node.out and _uncentred(v) is source]
            if others and reader.op in (ops.mul, ops.div):
                return others[0]
            if (reader.op.elementwise or reader.op in CARRIERS) and id(reader) not in seen:
                seen.add(id(reader))
                waiting.append(reader)
    return None


def _uncentred(value: Value) -> Value:
    """A value, or what a mean was taken off, before it was rounded."""
    view = peel(whole(value), rounding=True)
    return peel(operand(view, 0), rounding=True).base if view.op() is ops.sub else view.base
