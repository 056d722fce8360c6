"""Reductions, cumulative operations, arguments of extremes, sorting."""

from tests.fuzz.draw import Draw
from tests.fuzz.steps.registry import OF_A_VALUE, lines, step

OF_A_VALUE["ids"] = lambda d, x: d.of(d.pool[x].shape[:1], "int32")
lines(
    reduce=(5, "jnp.{sum|prod|max|min|mean|var|std|ptp}({x:*1+}, axis={over x}{|, keepdims=True})"),
    reduce_bool=(1, "jnp.{any|all|count_nonzero}({x:*1+}, axis={over x}{|, keepdims=True})"),
    reduce_logarithm=(0.7, "jax.scipy.special.logsumexp({x:f1+}, axis={over x})"),
    reduce_where=(0.5, "jnp.sum({x:fi1+}, axis={over x}, where={of x bool})"),
    norm=(
        0.7,
        "jnp.linalg.norm({x:f1+}, axis={axis x}{|, ord=1|, ord=jnp.inf|, ord=2}, "
        "keepdims={True|False})",
    ),
    cumulative=(0.6, "jnp.{cumsum|cumprod}({x:fiu1+}, axis={axis x})"),
    lax_cumulative=(
        1.4,
        "lax.{cumsum|cumprod|cummax|cummin|cumlogsumexp}({x:fiu1+}, axis={place x}, "
        "reverse={True|False})",
    ),
    extreme_argument=(2, "jnp.{argmax|argmin}({x:*1+&}, axis={axis x}{|, keepdims=True})"),
    # Unstable, the order of equals is open.
    sort=(1.5, "jnp.{sort|argsort}({x:*1+}, axis={axis x}{|, descending=True})"),
    sort_several=(0.7, "lax.sort(({x:fiu1+}, {like x}), dimension={axis x}, num_keys={1..2})"),
    lexsort=(0.5, "jnp.lexsort(({x:fiu1+}, {like x}), axis={axis x})"),
    median=(0.5, "jnp.{median({x:f1+!&}|quantile({x}, 0.3}, axis={axis x})"),
    differences=(0.5, "jnp.{diff({x:fi1+}, axis={axis x})|ediff1d({x})}"),
    associative_scan=(0.4, "lax.associative_scan(jnp.{add|multiply|maximum}, {x:f1+!})"),
    one_hot=(0.3, "jax.nn.one_hot({x:i}, {1..5}, axis={-1|0})"),
    top_k=(1, "lax.top_k({x:fiu1+!}, {1..3})"),
    segment_sum=(
        0.3,
        "jax.ops.segment_{sum|max|min|prod}({x:f1-3}, {ids x}, num_segments={1..4})",
    ),
    moments=(0.3, "jnp.{cov|trace|corrcoef}({x:f2})"),
)


@step(0.5)
def lax_reduce(d: Draw) -> str:
    x = d.any("fiu", (1, 9))
    # XLA leaves out a start that is no identity where one element is reduced, as an open size may
    # say.
    is_open = not all(isinstance(size, int) for size in d.pool[x].shape)
    name = d.choice("add", "mul") if is_open else d.choice("add", "mul", "max", "min")
    start = "0" if name in ("add", "max") else "1"
    return f"lax.reduce({x}, jnp.asarray({start}, {x}.dtype), lax.{name}, {d.axes(x)})"
