"""Structures that look like a named one in any spelling, for the report.

Nothing is proved here. The report contains the reason why a recogniser did not fuse a structure, or
says that no recogniser knows this spelling.
"""

import math
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
from converter.ir.dims import Shape
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
    square: ``x / sqrt(mean(x²))``, or ``x / sqrt(sum(x²)) * sqrt(n)`` for ``n`` elements. If that
    value is a difference, such as ``x - mean(x)``, the node is left to
    `find_layer_norm_look_alikes`. ``graph`` is the graph after the recognisers have run.
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
    readers = _readers(graph) if any(found is not None for _, found in squared) else {}
    for node, found in squared:
        if found is None:
            continue
        x, sizes = found
        product = _find_product(node, _uncentred(x.base), readers, strips_numbers=bool(sizes))
        if product is None or (
            sizes and not _is_scaled_by_root(product[0], sizes, readers, context)
        ):
            continue
        yield node, look_through(view_of(product[1]), conversions="rounding").op() is ops.sub


def _squared_value(variance: View, context: MatchContext) -> tuple[View, Shape] | None:
    """Return x if ``variance`` is mean(x²), mean(x²) + eps or mean(x²) - mean(x)²; otherwise None.

    A maximum in place of the sum is matched too, such as max(mean(x²) - mean(x)², 0). What is added
    or subtracted is not examined. A mean here is a sum over an axis longer than one, times a factor
    other than 1. If the factor is 1, the sizes of the axes are also returned, otherwise no sizes.
    """
    variance = look_through(variance, conversions="rounding")
    parts = operands(variance) if variance.op() in (ops.add, ops.max) else [variance]
    for part in parts:
        mean = operand(part, 0) if part.op() is ops.sub else part
        product = read_factors(mean, context, conversions="rounding")
        is_scaled = bool(product.divisors) or abs(product.coefficient - 1) > EQUAL
        has_named_divisors = all(named_size(d.base) is not None for d in product.divisors)
        if len(product.factors) != 1 or not has_named_divisors:
            continue
        summed = match_reduction(product.factors[0], ops.reduce_sum)
        if summed is None or exponent(summed.view) != 2:
            continue
        if any(not dims.is_same_dim(size, 1) for size in summed.sizes):
            root = operand(summed.view, 0, conversions="rounding")
            x = operand(root, 0) if root.op() is ops.abs else root
            return x, () if is_scaled else tuple(summed.sizes)
    return None


def _readers(graph: Graph) -> dict[int, list[Node]]:
    """Return the nodes that read each value, by its id."""
    table: dict[int, list[Node]] = {}
    for node in graph.walk():
        for value in node.inputs:
            table.setdefault(id(value), []).append(node)
    return table


def _is_scaled_by_root(
    node: Node, sizes: Shape, readers: dict[int, list[Node]], context: MatchContext
) -> bool:
    """Return True if a product has the factor sqrt(n), where n is the number of elements of an
    array of these sizes.

    ``node`` is an operation of the product. The operations that only read its result belong to it.
    ``readers`` contains the nodes that read each value, by the value's id.
    """
    while len(later := readers.get(id(node.out), [])) == 1 and later[0].op in (ops.mul, ops.div):
        node = later[0]
    if not dims.all_static(sizes):
        return False
    factor = read_factors(view_of(node.out), context, conversions="rounding").coefficient
    return abs(abs(factor) / math.sqrt(math.prod(map(int, sizes))) - 1) <= EQUAL


def _find_product(
    root: Node, source: Value, readers: dict[int, list[Node]], strips_numbers: bool
) -> tuple[Node, Value] | None:
    """Return the node in which a root divides or multiplies ``source`` or ``source - y``, and the
    value that it divides or multiplies.

    If ``strips_numbers`` is true, the root may also divide or multiply the product of this value
    and a number. The root may pass through elementwise operations and operations that move elements
    before the product or quotient. Return None if no such operand is found within `DEEPEST_SEARCH`
    nodes. ``readers`` contains the nodes that read each value, by the value's id.
    """
    visited, queue = {id(root)}, [root]
    for node in islice(iter(queue), DEEPEST_SEARCH):
        for reader in readers.get(id(node.out), ()):
            partners = [v for v in reader.inputs if v is not node.out]
            if strips_numbers:
                partners += [_without_number(v) for v in partners]
            matches = [v for v in partners if _uncentred(v) is source]
            if matches and reader.op in (ops.mul, ops.div):
                return reader, matches[0]
            if (reader.op.elementwise or reader.op in CARRIERS) and id(reader) not in visited:
                visited.add(id(reader))
                queue.append(reader)
    return None


def _without_number(value: Value) -> Value:
    """Return x if the value is a product of x and a known number, otherwise the value itself.

    Conversions and moves of the product are removed.
    """
    node = look_through(view_of(value), conversions="rounding").base.producer_if(ops.mul)
    others = [] if node is None else [v for v in node.inputs if bound_scalar(v) is None]
    return others[0] if len(others) == 1 else value


def _uncentred(value: Value) -> Value:
    """Return x if the value is a difference ``x - y``, otherwise the value itself.

    Conversions and moves are removed in both cases.
    """
    view = look_through(view_of(value), conversions="rounding")
    view = operand(view, 0, conversions="rounding") if view.op() is ops.sub else view
    return view.base
