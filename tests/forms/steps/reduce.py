"""Steps with reductions, cumulative operations, positions of extremes, and sorting."""

from tests.forms.draw import Draw
from tests.forms.steps.registry import OF_A_VALUE, lines, step

OF_A_VALUE["ids"] = lambda d, x: d.of(d.pool[x].shape[:1], "int32")
lines("""
5 reduce jnp.{sum|prod|max|min|mean|var|std|ptp}({x:*1+}, axis={over x}{|, keepdims=True})
1 reduce_bool jnp.{any|all|count_nonzero}({x:*1+}, axis={over x}{|, keepdims=True})
0.7 reduce_logarithm jax.scipy.special.logsumexp({x:f1+}, axis={over x})
0.5 reduce_where jnp.sum({x:fi1+}, axis={over x}, where={of x bool})
0.7 norm jnp.linalg.norm({x:f1+}, axis={axis x}{|, ord=1|, ord=jnp.inf|, ord=2},
    keepdims={True|False})
0.6 cumulative jnp.{cumsum|cumprod}({x:fiu1+}, axis={axis x})
1.4 lax_cumulative lax.{cumsum|cumprod|cummax|cummin|cumlogsumexp}({x:fiu1+}, axis={place x},
    reverse={True|False})
2 extreme_argument jnp.{argmax|argmin}({x:*1+&}, axis={axis x}{|, keepdims=True})
# If a sort is unstable, the order of equal values is open, so all of these are stable.
1.5 sort jnp.{sort|argsort}({x:*1+}, axis={axis x}{|, descending=True})
0.7 sort_several lax.sort(({x:fiu1+}, {like x}), dimension={axis x}, num_keys={1..2})
0.5 lexsort jnp.lexsort(({x:fiu1+}, {like x}), axis={axis x})
0.5 median jnp.{median({x:f1+!&}|quantile({x}, 0.3}, axis={axis x})
0.5 differences jnp.{diff({x:fi1+}, axis={axis x})|ediff1d({x})}
0.4 associative_scan lax.associative_scan(jnp.{add|multiply|maximum}, {x:f1+!})
0.3 one_hot jax.nn.one_hot({x:i}, {1..5}, axis={-1|0})
1 top_k lax.top_k({x:fiu1+!}, {1..3})
0.3 segment_sum jax.ops.segment_{sum|max|min|prod}({x:f1-3}, {ids x}, num_segments={1..4})
0.3 moments jnp.{cov|trace|corrcoef}({x:f2})
""")


@step(0.5)
def lax_reduce(d: Draw) -> str:
    x = d.any("fiu", (1, 9))
    # XLA ignores a start that is no identity if it reduces one element, which an open size may be.
    is_open = not all(isinstance(size, int) for size in d.pool[x].shape)
    name = d.choice("add", "mul") if is_open else d.choice("add", "mul", "max", "min")
    start = "0" if name in ("add", "max") else "1"
    return f"lax.reduce({x}, jnp.asarray({start}, {x}.dtype), lax.{name}, {d.axes(x)})"
