"""jraph: networks on graphs. A ``GraphsTuple`` is an input, with fixed numbers of nodes and
edges."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from tests.frameworks.rows import Bound, Row, draw

NODES, EDGES = 6, 9
INTEGERS = ((EDGES,), np.int32)
COUNTS = ((2,), np.int32)

SENT = {"senders": INTEGERS, "receivers": INTEGERS}
COUNTED = {"n_node": COUNTS, "n_edge": COUNTS}
GRAPH = (jraph.GraphsTuple((NODES, 4), (EDGES, 3), **SENT, globals=(2, 2), **COUNTED),)
"""The spec of two graphs with six nodes and nine edges together."""


def features(width: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((width, 4), np.float32)


def counted(graph: jraph.GraphsTuple) -> jraph.GraphsTuple:
    """Return the graph with the numbers of nodes and edges of each graph. Drawn numbers would not
    have the right sum."""
    return graph._replace(n_node=jnp.array([2, 4]), n_edge=jnp.array([4, 5]))


def network(make: Callable[..., Any], **widths: int) -> Callable[..., Bound]:
    """Return ``bind`` for a network. ``make`` takes the functions of its parts in the order of
    their names; each is a matrix product with the width in ``widths``."""

    def fn(params: Any, graph: jraph.GraphsTuple) -> Any:
        return make(*(layer_of(params[name]) for name in sorted(params)))(counted(graph))

    def layer_of(matrix: jax.Array) -> Callable[..., jax.Array]:
        return jraph.concatenated_args(lambda x: jax.nn.relu(x @ matrix))

    return lambda _: (fn, draw({name: features(width) for name, width in widths.items()}))


def attention(params: Any, graph: jraph.GraphsTuple) -> Any:
    """Apply graph attention with one head (Veličković et al., 2018)."""

    def logits(sent: jax.Array, received: jax.Array, _: Any) -> jax.Array:
        pair = jnp.concatenate([sent, received], -1)
        return jax.nn.leaky_relu(jnp.sum(pair @ params["logits"], -1, keepdims=True))

    layer = jraph.GAT(lambda x: x @ params["query"], logits, jax.nn.relu)
    return layer(counted(graph)).nodes


def segments(reduce: Callable[..., Any]) -> Callable[..., Bound]:
    """Return ``bind`` for a function over the edges that arrive at each node."""
    return lambda *_: (lambda x, i: reduce(x, i, NODES), None)


ROWS = [
    Row("GraphNetwork", network(jraph.GraphNetwork, edge=13, node=14, whole=10), GRAPH),
    Row("InteractionNetwork", network(jraph.InteractionNetwork, edge=11, node=8), GRAPH),
    Row("RelationNetwork", network(jraph.RelationNetwork, edge=8, whole=4), GRAPH),
    Row("DeepSets", network(jraph.DeepSets, node=6, whole=4), GRAPH),
    Row("GraphMapFeatures", network(jraph.GraphMapFeatures, edge=3, node=4), GRAPH),
    Row("GraphConvolution", network(
        lambda node: jraph.GraphConvolution(node, add_self_edges=True), node=4), GRAPH),
    Row("GAT", lambda _: (attention, draw({"query": features(4), "logits": features(8)})), GRAPH),
    *(Row(name, segments(vars(jraph)[name]), ((EDGES, 4), INTEGERS)) for name in (
        "segment_sum", "segment_mean", "segment_max", "segment_min", "segment_softmax",
        "segment_normalize", "segment_variance", "segment_max_or_constant",
        "segment_min_or_constant")),
]  # fmt: skip

EXCLUDED = {
    "GraphNetGAT": "a GraphNetwork with a function instead of its sums, as in GAT",
    "partition_softmax": "segment_softmax with ids that it computes from counts",
}
"""Public layers without a row, with the reason."""
LAYERS = (
    *("GraphNetwork", "InteractionNetwork", "RelationNetwork", "DeepSets", "GraphMapFeatures"),
    *("GraphConvolution", "GAT", "GraphNetGAT"),
)
"""Names of jraph's layers. They are functions like its other functions, so no base class lists
them."""


def public() -> set[str]:
    segmented = {name for name in vars(jraph) if name.startswith(("segment_", "partition_"))}
    return segmented | {name for name in LAYERS if name in vars(jraph)}
