"""Structures that look like a named one in any spelling, for the report.

Nothing is proved here. The report contains the reason why a recogniser did not fuse a structure, or
says that no recogniser knows this spelling.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from converter.fuse.dependence import bound_scalar
from converter.fuse.factors import read_factors
from converter.fuse.match import (
    CARRIERS,
    DEEPEST_SEARCH,
    UNKNOWN,
    MatchContext,
    iter_elementwise_ancestors,
    operand,
    operands,
    peeled_view,
)
from converter.fuse.normal_form import exponent
from converter.fuse.polynomials import EQUAL
from converter.fuse.reductions import match_reduction
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import look_through
from converter.ir.scalars import named_size


def find_attention_look_alikes(graph: Graph, context: MatchContext) -> Iterator[tuple[Node, str]]:
    """Yield the near misses of attention: the second product, and why attention was not matched.

    The second product is a contraction (``einsum``) with an operand that comes from a softmax of
    another contraction by elementwise operations and moves. The softmax may be an operation, an
    exponential whose elements are also summed, or the exponential of a log softmax. ``graph`` is
    the graph after the recognisers have run.
    """
    nodes = [*graph.walk()]
    sums = (node for node in nodes if node.op is ops.reduce_sum)
    summed = {id(inner) for node in sums for inner in _find_exponentials(node) if inner is not node}
    for node in nodes:
        if node.op is not ops.einsum:
            continue
        for value in node.inputs:
            exps = [] if value.node is None else [*_find_exponentials(value.node)]
            if any(_is_softmax_of_product(n, summed) for n in exps):
                yield node, _explain_weights(value, exps)
                break


def _explain_weights(value: Value, exponentials: Sequence[Node]) -> str:
    """Return the reason why attention was not matched: an unknown softmax, or an operation after
    it.

    ``value`` is the operand of the second product. ``exponentials`` are the exponentials and
    softmax nodes from which it is computed.
    """
    op = look_through(view_of(value), conversions="rounding").op()
    if all(n.op is not ops.softmax for n in exponentials):
        return "its softmax is written in a way that is not known"
    return (
        UNKNOWN if op is ops.softmax else f"between the softmax and the second product stands {op}"
    )


def _find_exponentials(node: Node) -> Iterator[Node]:
    """Yield the exponential and softmax nodes from which a node is computed elementwise."""
    return (n for n in iter_elementwise_ancestors(node) if n.op in (ops.exp, ops.softmax))


def _is_softmax_of_product(node: Node, summed: set[int]) -> bool:
    """Return True for a softmax of a value that is computed by a contraction.

    A softmax that is written by hand is also included: an exponential whose elements are summed, or
    the exponential of a log softmax. ``summed`` are the ids of the exponentials whose elements are
    summed.
    """
    inner_nodes = iter_elementwise_ancestors(
        node, (ops.reduce_max, ops.exp, ops.softmax, *_LOGARITHMS)
    )
    operations = {n.op for n in inner_nodes}
    is_normalized = node.op is ops.softmax or id(node) in summed or operations & _LOGARITHMS
    return bool(is_normalized) and ops.einsum in operations


_LOGARITHMS = {ops.log_softmax, ops.log}


def find_layer_norm_look_alikes(graph: Graph, context: MatchContext) -> Iterator[tuple[Node, str]]:
    """Yield the near misses of layer norm: the node of the root, and why the norm was not matched.

    A near miss is a difference ``x - y`` that is divided by, or multiplied with, a root or power of
    the mean square of ``x - y`` or ``x``. ``graph`` is the graph after the recognisers have run.
    """
    return (
        (node, _explain_root(node))
        for node, centred in _find_norm_look_alikes(graph, context)
        if centred
    )


def find_rms_norm_look_alikes(graph: Graph, context: MatchContext) -> Iterator[tuple[Node, str]]:
    """Yield the near misses of RMS norm: the node of the root, and why the norm was not matched.

    A near miss is a value that is divided by, or multiplied with, a root or power of its own mean
    square: ``x / sqrt(mean(x²))``. If that value is a difference, such as ``x - mean(x)``, the node
    is left to `find_layer_norm_look_alikes`. ``graph`` is the graph after the recognisers have run.
    """
    return (
        (node, _explain_root(node))
        for node, centred in _find_norm_look_alikes(graph, context)
        if not centred
    )


def _explain_root(root: Node) -> str:
    """Return the reason why a square root is not the deviation of a known norm.

    There are three: no epsilon is added under the root, the added value is no known number, or the
    norm is written in an unknown way.
    """
    radicand = look_through(view_of(root.inputs[0]), conversions="rounding")
    if radicand.op() is not ops.add:
        return "no epsilon is added within the root"
    numbers = [bound_scalar(part.base) for part in operands(radicand)]
    reason = "what is added within the root is no number that is known"
    return UNKNOWN if any(number is not None for number in numbers) else reason


def _find_norm_look_alikes(graph: Graph, context: MatchContext) -> Iterator[tuple[Node, bool]]:
    """Yield the nodes of norms that are not fused: roots or powers of the mean square of a value
    that they divide or multiply.

    Each node comes with True if the divided or multiplied value is centred, otherwise with False. A
    value counts as centred if it is a difference ``x - y``. The mean square may be that of ``x``
    also if the value is centred, and that of ``x - y`` also if it is not.
    """
    roots = [node for node in graph.walk() if node.op in (ops.rsqrt, ops.sqrt, ops.pow)]
    squared = [(node, _squared_value(peeled_view(node.inputs[0]), context)) for node in roots]
    readers = _readers(graph) if any(mean is not None for _, mean in squared) else {}
    for node, mean in squared:
        partner = None if mean is None else _find_partner(node, _uncentred(mean.base), readers)
        if partner is not None:
            yield node, look_through(view_of(partner), conversions="rounding").op() is ops.sub


def _squared_value(variance: View, context: MatchContext) -> View | None:
    """Return x if ``variance`` is mean(x²), mean(x²) + eps or mean(x²) - mean(x)²; otherwise None.

    A maximum in place of the sum is matched too, such as max(mean(x²) - mean(x)², 0). What is added
    or subtracted is not examined. A mean here is a sum over an axis longer than one, times a factor
    other than 1.
    """
    variance = look_through(variance, conversions="rounding")
    parts = operands(variance) if variance.op() in (ops.add, ops.max) else [variance]
    for part in parts:
        mean = operand(part, 0) if part.op() is ops.sub else part
        product = read_factors(mean, context, conversions="rounding")
        is_scaled = bool(product.divisors) or abs(product.coefficient - 1) > EQUAL
        has_named_divisors = all(named_size(d.base) is not None for d in product.divisors)
        if len(product.factors) != 1 or not has_named_divisors or not is_scaled:
            continue
        summed = match_reduction(product.factors[0], ops.reduce_sum)
        if summed is None or exponent(summed.view) != 2:
            continue
        if any(not dims.is_same_dim(size, 1) for size in summed.sizes):
            root = operand(summed.view, 0, conversions="rounding")
            return operand(root, 0) if root.op() is ops.abs else root
    return None


def _readers(graph: Graph) -> dict[int, list[Node]]:
    """Return the nodes that read each value, by its id."""
    table: dict[int, list[Node]] = {}
    for node in graph.walk():
        for value in node.inputs:
            table.setdefault(id(value), []).append(node)
    return table


def _find_partner(root: Node, source: Value, readers: dict[int, list[Node]]) -> Value | None:
    """Return the operand that a root divides or multiplies, if it is ``source`` or ``source - y``.

    The root may pass through elementwise operations and operations that move elements before the
    product or quotient. Return None if no such operand is found within `DEEPEST_SEARCH` nodes.
    ``readers`` contains the nodes that read each value, by the value's id.
    """
    visited, queue = {id(root)}, [root]
    for node in islice(iter(queue), DEEPEST_SEARCH):
        for reader in readers.get(id(node.out), ()):
            matches = [v for v in reader.inputs if v is not node.out and _uncentred(v) is source]
            if matches and reader.op in (ops.mul, ops.div):
                return matches[0]
            if (reader.op.elementwise or reader.op in CARRIERS) and id(reader) not in visited:
                visited.add(id(reader))
                queue.append(reader)
    return None


def _uncentred(value: Value) -> Value:
    """Return x if the value is a difference ``x - y``, otherwise the value itself.

    Conversions and moves are removed in both cases.
    """
    view = look_through(view_of(value), conversions="rounding")
    view = operand(view, 0, conversions="rounding") if view.op() is ops.sub else view
    return view.base
