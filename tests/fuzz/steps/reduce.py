"""Reductions, cumulative operations, arguments of extremes, sorting."""

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.steps.registry import step

NUMBERS = ("jnp.sum", "jnp.prod", "jnp.max", "jnp.min", "jnp.mean", "jnp.var", "jnp.std", "jnp.ptp")
CUMULATIVE = (
    *("jnp.cumsum", "jnp.cumprod", "lax.cumsum", "lax.cumprod", "lax.cummax", "lax.cummin"),
    "lax.cumlogsumexp",
)


def _axes(d: Draw, x: str) -> str:
    if d.chance(0.15):
        return "None"
    return str(d.axis(x)) if d.chance(0.6) else str(d.axes(x))


def _nonempty(d: Draw, x: str) -> None:
    if 0 in d.pool[x].shape:
        raise Unfit


@step(5)
def reduce(d: Draw) -> str:
    x = d.any("fiub", (1, 9))
    keep = d.choice("", ", keepdims=True")
    return f"{d.choice(*NUMBERS)}({x}, axis={_axes(d, x)}{keep})"


@step(1)
def reduce_bool(d: Draw) -> str:
    x = d.any("biuf", (1, 9))
    keep = d.choice("", ", keepdims=True")
    return f"{d.choice('jnp.any', 'jnp.all', 'jnp.count_nonzero')}({x}, axis={_axes(d, x)}{keep})"


@step(0.7)
def reduce_logarithm(d: Draw) -> str:
    x = d.floating(1)
    return f"jax.scipy.special.logsumexp({x}, axis={_axes(d, x)})"


@step(0.5)
def reduce_where(d: Draw) -> str:
    x = d.any("fi", (1, 9))
    mask = d.of(d.pool[x].shape, "bool")
    return f"jnp.sum({x}, axis={_axes(d, x)}, where={mask})"


@step(0.7)
def norm(d: Draw) -> str:
    x = d.floating(1)
    order = d.choice("", ", ord=1", ", ord=jnp.inf", ", ord=2")
    return f"jnp.linalg.norm({x}, axis={d.axis(x)}{order}, keepdims={d.choice(True, False)})"


@step(0.5)
def lax_reduce(d: Draw) -> str:
    x = d.any("fiu", (1, 9))
    # XLA leaves out a start that is no identity where one element is reduced, as an open size may
    # say.
    is_open = not all(isinstance(size, int) for size in d.pool[x].shape)
    name = d.choice("add", "mul") if is_open else d.choice("add", "mul", "max", "min")
    start = "0" if name in ("add", "max") else "1"
    return f"lax.reduce({x}, jnp.asarray({start}, {x}.dtype), lax.{name}, {d.axes(x)})"


@step(2)
def cumulative(d: Draw) -> str:
    x = d.any("fiu", (1, 9))
    name = d.choice(*CUMULATIVE)
    if name.startswith("jnp"):
        return f"{name}({x}, axis={d.axis(x)})"
    return f"{name}({x}, axis={d.axis(x, negative=False)}, reverse={d.choice(True, False)})"


@step(2)
def extreme_argument(d: Draw) -> str:
    x = d.any("fiub", (1, 9))
    _nonempty(d, x)
    keep = d.choice("", ", keepdims=True")
    return f"{d.choice('jnp.argmax', 'jnp.argmin')}({x}, axis={d.axis(x)}{keep})"


@step(1.5)
def sort(d: Draw) -> str:
    x = d.any("fiub", (1, 9))
    more = d.choice("", ", descending=True")  # unstable, the order of equals is open
    return f"{d.choice('jnp.sort', 'jnp.argsort')}({x}, axis={d.axis(x)}{more})"


@step(0.7)
def sort_several(d: Draw) -> str:
    x = d.any("fiu", (1, 9))
    keys = d.choice(1, 2)
    return f"lax.sort(({x}, {d.like(x)}), dimension={d.axis(x)}, num_keys={keys})"


@step(0.5)
def lexsort(d: Draw) -> str:
    x = d.any("fiu", (1, 9))
    return f"jnp.lexsort(({x}, {d.like(x)}), axis={d.axis(x)})"


@step(1)
def top_k(d: Draw) -> str:
    x = d.any("fiu", (1, 9), static=True)
    last = d.shape(x)[-1]
    return f"lax.top_k({x}, {d.integer(1, last)})"


@step(0.5)
def median(d: Draw) -> str:
    x = d.floating(1, static=True)
    _nonempty(d, x)
    return d.choice(
        f"jnp.median({x}, axis={d.axis(x)})", f"jnp.quantile({x}, 0.3, axis={d.axis(x)})"
    )


@step(0.5)
def differences(d: Draw) -> str:
    x = d.any("fi", (1, 9))
    return f"{d.choice('jnp.diff', 'jnp.ediff1d')}({x}" + (f", axis={d.axis(x)})")


@step(0.4)
def associative_scan(d: Draw) -> str:
    x = d.any("f", (1, 9), static=True)
    return f"lax.associative_scan({d.choice('jnp.add', 'jnp.multiply', 'jnp.maximum')}, {x})"


@step(0.3)
def one_hot(d: Draw) -> str:
    return f"jax.nn.one_hot({d.any('i')}, {d.integer(1, 5)}, axis={d.choice(-1, 0)})"


@step(0.3)
def segment_sum(d: Draw) -> str:
    x = d.any("f", (1, 3))
    ids = d.of(d.pool[x].shape[:1], "int32")
    name = d.choice("sum", "max", "min", "prod")
    return f"jax.ops.segment_{name}({x}, {ids}, num_segments={d.integer(1, 4)})"


@step(0.3)
def moments(d: Draw) -> str:
    x = d.floating(2, 2)
    return f"{d.choice('jnp.cov', 'jnp.trace', 'jnp.corrcoef')}({x})"
