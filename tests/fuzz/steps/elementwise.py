"""Elementwise arithmetic, comparisons, choices, conversions."""

from tests.fuzz.draw import Draw
from tests.fuzz.steps.registry import step

FLOAT = (
    *("jnp.sin", "jnp.cos", "jnp.tanh", "jnp.exp", "jnp.log1p", "jnp.expm1", "jnp.arctan"),
    *("jnp.arcsinh", "jnp.sinh", "jnp.cosh", "jnp.exp2", "jnp.cbrt", "jnp.rint", "jnp.trunc"),
    *("jnp.floor", "jnp.ceil", "jnp.tan", "jax.nn.sigmoid", "jax.nn.softplus", "jax.nn.silu"),
    *("jax.nn.elu", "jax.nn.selu", "jax.nn.celu", "jax.nn.leaky_relu", "jax.nn.relu6"),
    *("jax.nn.hard_swish", "jax.nn.hard_sigmoid", "jax.nn.hard_tanh", "jax.nn.log_sigmoid"),
    *("jax.nn.soft_sign", "jax.nn.mish", "jax.nn.squareplus", "jax.lax.erf", "jax.lax.erfc"),
    *("jax.scipy.special.ndtr", "jax.scipy.special.log_ndtr", "jax.scipy.stats.norm.logcdf"),
    *("jnp.isnan", "jnp.isinf", "jnp.isfinite", "jnp.signbit", "jnp.sinc", "jnp.deg2rad"),
    *("jnp.nan_to_num", "jnp.round", "lax.round", "lax.is_finite", "jnp.fix"),
)
POSITIVE = (
    *("jnp.log", "jnp.sqrt", "lax.rsqrt", "jnp.log2", "jnp.log10", "lax.lgamma", "lax.digamma"),
    *("jnp.reciprocal", "jax.scipy.special.entr"),
)
UNIT = ("jnp.arcsin", "jnp.arccos", "jnp.arctanh", "jax.lax.erf_inv")
ANY = ("jnp.abs", "jnp.square", "jnp.sign", "jnp.negative", "jax.nn.relu", "-", "jnp.positive")
WHOLE = ("jnp.invert", "lax.population_count", "lax.clz", "jnp.bitwise_not", "jnp.abs")
BINARY = (
    *("jnp.add", "jnp.subtract", "jnp.multiply", "jnp.maximum", "jnp.minimum"),
    *("jnp.equal", "jnp.not_equal", "jnp.less", "jnp.less_equal", "jnp.greater"),
    *("jnp.greater_equal", "jnp.add", "jnp.subtract", "jnp.multiply"),
)
BINARY_FLOAT = (
    *("jnp.arctan2", "jnp.hypot", "jnp.logaddexp", "jnp.copysign", "jnp.heaviside"),
    *("jnp.fmax", "jnp.fmin", "jnp.logaddexp2", "jnp.nextafter", "jnp.float_power"),
)
BITS = ("jnp.bitwise_and", "jnp.bitwise_or", "jnp.bitwise_xor", "jnp.gcd", "jnp.lcm")
SHIFTS = ("lax.shift_left", "lax.shift_right_logical", "lax.shift_right_arithmetic")
LOGICAL = ("jnp.logical_and", "jnp.logical_or", "jnp.logical_xor")


@step(8)
def unary_float(d: Draw) -> str:
    return f"{d.choice(*FLOAT)}({d.floating()})"


@step(2)
def unary_positive(d: Draw) -> str:
    return f"{d.choice(*POSITIVE)}(jnp.abs({d.floating()}) + {d.choice('0.5', '1e-3', '2')})"


@step(0.7)
def unary_unit(d: Draw) -> str:
    return f"{d.choice(*UNIT)}(jnp.tanh({d.floating()}) * 0.9)"


@step(2)
def unary_any(d: Draw) -> str:
    return f"{d.choice(*ANY)}({d.any('fi')})"


@step(1)
def unary_whole(d: Draw) -> str:
    return f"{d.choice(*WHOLE)}({d.any('iu')})"


@step(0.7)
def logical_not(d: Draw) -> str:
    return f"{d.choice('~', 'jnp.logical_not')}({d.any('b')})"


@step(8)
def binary(d: Draw) -> str:
    x = d.any("fiu")
    pair = [x, d.broadcastable(x)]
    d.rng.shuffle(pair)
    return f"{d.choice(*BINARY)}({pair[0]}, {pair[1]})"


@step(1)
def binary_mixed(d: Draw) -> str:
    """Two dtypes, which JAX promotes."""
    return f"{d.choice('jnp.add', 'jnp.multiply', 'jnp.maximum')}({d.any()}, {d.any()})"


@step(3)
def with_number(d: Draw) -> str:
    x = d.any("fiu")
    number = d.number() if d.pool[x].kind == "f" else d.choice("2", "3", "1", "7")
    sign = d.choice("+", "-", "*", "<", ">=", "==")
    return f"{x} {sign} {number}" if d.chance(0.6) else f"{number} {sign} {x}"


@step(2)
def divide(d: Draw) -> str:
    x = d.any("fiu")
    y = d.broadcastable(x)
    if d.pool[x].kind == "f":
        return f"{x} / (jnp.abs({y}) + {d.choice('1', '0.5', '1e-8')})"
    name = d.choice("//", "%", "/")
    return f"{x} {name} jnp.maximum({y}, 1)"


@step(1)
def divide_by_number(d: Draw) -> str:
    x = d.any("fiu")
    if d.pool[x].kind == "f":
        return f"{x} {d.choice('/', '/', '%', '//')} {d.choice('2.5', '3', '0.125')}"
    return f"{d.choice('lax.div', 'lax.rem', 'jnp.floor_divide', 'jnp.remainder', 'jnp.fmod')}" + (
        f"({x}, jnp.full_like({x}, {d.choice('3', '2', '7')}))"
    )


@step(1)
def binary_float(d: Draw) -> str:
    x = d.floating()
    return f"{d.choice(*BINARY_FLOAT)}({x}, {d.like(x)})"


@step(1)
def power(d: Draw) -> str:
    x = d.any("fiu")
    if d.pool[x].kind == "f" and d.chance(0.5):
        return f"(jnp.abs({x}) + 0.1) ** {d.choice('0.5', '1.5', '-0.5', d.like(x))}"
    return f"{x} ** {d.choice('2', '3', '0', '1', '5')}"


@step(1)
def bits(d: Draw) -> str:
    x = d.any("iu")
    name, y = d.choice(*BITS), d.like(x)
    if name in ("jnp.gcd", "jnp.lcm"):  # of the smallest integer JAX does not find one, for ever
        x, y = (f"jnp.clip({v}, 0, 99)" for v in (x, y))
    return f"{name}({x}, {y})"


@step(0.7)
def shift(d: Draw) -> str:
    x = d.any("iu")
    return f"{d.choice(*SHIFTS)}({x}, {d.like(x)})"


@step(1)
def logical(d: Draw) -> str:
    x = d.any("b")
    return f"{d.choice(*LOGICAL)}({x}, {d.broadcastable(x)})"


@step(3)
def where(d: Draw) -> str:
    x = d.any()
    y = d.broadcastable(x)
    spec = d.pool[x]
    if d.chance(0.5):
        return f"jnp.where({d.of(spec.shape, 'bool')}, {x}, {y})"
    if spec.kind == "b":
        raise_to = d.choice("&", "|", "^")
        return f"{x} {raise_to} {y}"
    return f"jnp.where({x} > {d.choice('0', '1', d.broadcastable(x))}, {d.choice(x, '0', y)}, {y})"


@step(0.5)
def select_n(d: Draw) -> str:
    x = d.any()
    which = d.of(d.pool[x].shape, "int32")
    return f"lax.select_n(jnp.clip({which}, 0, 2), {x}, {d.like(x)}, {d.like(x)})"


@step(0.5)
def select(d: Draw) -> str:
    x, y, z = d.any("fiu"), d.any("fiu"), d.any("fiu")
    return f"jnp.select([{x} > 1, {y} < 0], [{y}, {z}], {d.choice('0', x)})"


@step(1.5)
def clip(d: Draw) -> str:
    x = d.any("fiu")
    if d.chance(0.3):
        return f"lax.clamp({d.like(x)}, {x}, {d.like(x)})"
    low, high = ("-0.5", "1.0") if d.pool[x].kind == "f" else ("1", "5")
    return f"jnp.clip({x}, {d.choice(low, 'None')}, {high})"


@step(2)
def convert(d: Draw) -> str:
    return f"{d.any()}.astype({d.dtype()!r})"


@step(0.4)
def scale_to_bytes(d: Draw) -> str:
    return f"({d.floating()} * {d.choice('255', '100', '3e9')}).astype({d.dtype()!r})"


@step(0.3)
def bitcast(d: Draw) -> str:
    x = d.any("fiu")
    width = 8 * jnp_size(d.pool[x].dtype)
    return f"lax.bitcast_convert_type({x}, '{d.choice('int', 'uint', 'float')}{width}')"


def jnp_size(dtype: str) -> int:
    """Bytes of an element."""
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) // 8 if digits else 1


@step(0.5)
def like_constants(d: Draw) -> str:
    x = d.any()
    made = d.choice("jnp.zeros_like", "jnp.ones_like", "jnp.full_like")
    return f"{made}({x}, {d.number()})" if made.endswith("full_like") else f"{made}({x})"


@step(0.3)
def reduce_precision(d: Draw) -> str:
    return f"lax.reduce_precision({d.floating()}, {d.choice('5, 10', '8, 7', '8, 23')})"


@step(0.4)
def polynomial(d: Draw) -> str:
    return f"jnp.polyval(jnp.array([0.5, -1.0, 2.0]), {d.floating()})"


@step(0.3)
def digitize(d: Draw) -> str:
    name = d.choice("jnp.digitize", "jnp.searchsorted")
    x = d.floating()
    bins = "jnp.array([-1.0, 0.0, 0.5, 2.0])"
    pair = f"{x}, {bins}" if name.endswith("digitize") else f"{bins}, {x}"
    return f"{name}({pair})"


@step(0.3)
def interpolate(d: Draw) -> str:
    grid = "jnp.array([-1.0, 0.0, 0.5, 2.0])"
    return f"jnp.interp({d.floating()}, {grid}, jnp.array([0.0, 3.0, -1.0, 1.0]))"
