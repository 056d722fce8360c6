"""Elementwise arithmetic, comparisons, choices, conversions."""

from tests.fuzz.draw import Draw
from tests.fuzz.steps.registry import lines, step

FLOAT = (
    "{jnp.sin|jnp.cos|jnp.tanh|jnp.exp|jnp.log1p|jnp.expm1|jnp.arctan|jnp.arcsinh|jnp.sinh|jnp.cosh"
    "|jnp.exp2|jnp.cbrt|jnp.rint|jnp.trunc|jnp.floor|jnp.ceil|jnp.tan|jnp.isnan|jnp.isinf|jnp.isfinite"
    "|jnp.signbit|jnp.sinc|jnp.deg2rad|jnp.nan_to_num|jnp.round|lax.round|lax.is_finite|jnp.fix|lax.erf"
    "|lax.erfc|jax.nn.sigmoid|jax.nn.softplus|jax.nn.silu|jax.nn.elu|jax.nn.selu|jax.nn.celu"
    "|jax.nn.leaky_relu|jax.nn.relu6|jax.nn.hard_swish|jax.nn.hard_sigmoid|jax.nn.hard_tanh"
    "|jax.nn.log_sigmoid|jax.nn.soft_sign|jax.nn.mish|jax.nn.squareplus|jax.scipy.special.ndtr"
    "|jax.scipy.special.log_ndtr|jax.scipy.stats.norm.logcdf}"
)
POSITIVE = (
    "{jnp.log|jnp.sqrt|lax.rsqrt|jnp.log2|jnp.log10|lax.lgamma|lax.digamma|jnp.reciprocal"
    "|jax.scipy.special.entr}"
)
ANY = "{jnp.abs|jnp.square|jnp.sign|jnp.negative|jax.nn.relu|-|jnp.positive}"
WHOLE = "{jnp.invert|lax.population_count|lax.clz|jnp.bitwise_not|jnp.abs}"
BINARY_FLOAT = (
    "{jnp.arctan2|jnp.hypot|jnp.logaddexp|jnp.copysign|jnp.heaviside|jnp.fmax|jnp.fmin"
    "|jnp.logaddexp2|jnp.nextafter|jnp.float_power}"
)
BINARY = (
    *("jnp.add", "jnp.subtract", "jnp.multiply", "jnp.maximum", "jnp.minimum"),
    *("jnp.equal", "jnp.not_equal", "jnp.less", "jnp.less_equal", "jnp.greater"),
    *("jnp.greater_equal", "jnp.add", "jnp.subtract", "jnp.multiply"),
)
BITS = ("jnp.bitwise_and", "jnp.bitwise_or", "jnp.bitwise_xor", "jnp.gcd", "jnp.lcm")
SHIFTS = "{lax.shift_left|lax.shift_right_logical|lax.shift_right_arithmetic}"
INTEGER_QUOTIENTS = "{lax.div|lax.rem|jnp.floor_divide|jnp.remainder|jnp.fmod}"
BINS = "jnp.array([-1.0, 0.0, 0.5, 2.0])"

lines(
    unary_float=(8, f"{FLOAT}({{x:f}})"),
    unary_positive=(2, f"{POSITIVE}(jnp.abs({{x:f}}) + {{0.5|1e-3|2}})"),
    unary_unit=(0.7, "{jnp.arcsin|jnp.arccos|jnp.arctanh|lax.erf_inv}(jnp.tanh({x:f}) * 0.9)"),
    unary_any=(2, f"{ANY}({{x:fi}})"),
    unary_whole=(1, f"{WHOLE}({{x:iu}})"),
    logical_not=(0.7, "{~|jnp.logical_not}({x:b})"),
    binary_mixed=(1, "{jnp.add|jnp.multiply|jnp.maximum}({x:*}, {y:*})"),
    float_with_number=(2, "{s=+|-|*|<|>=|==} {n=number} => {{x:f} {s} {n}|{n} {s} {x}}"),
    whole_with_number=(1, "{s=+|-|*|<|>=|==} {n=2|3|1|7} => {{x:iu} {s} {n}|{n} {s} {x}}"),
    divide=(1.3, "{x:f} / (jnp.abs({broad x}) + {1|0.5|1e-8})"),
    divide_whole=(0.7, "{x:iu} {//|%|/} jnp.maximum({broad x}, 1)"),
    divide_by_number=(0.7, "{x:f} {/|/|%|//} {2.5|3|0.125}"),
    divide_by_whole=(0.3, f"{INTEGER_QUOTIENTS}({{x:iu}}, jnp.full_like({{x}}, {{3|2|7}}))"),
    binary_float=(1, f"{BINARY_FLOAT}({{x:f}}, {{like x}})"),
    power=(0.4, "(jnp.abs({x:f}) + 0.1) ** {0.5|1.5|-0.5|{like x}}"),
    power_of_number=(0.6, "{x:fiu} ** {2|3|0|1|5}"),
    shift=(0.7, f"{SHIFTS}({{x:iu}}, {{like x}})"),
    logical=(1, "{jnp.logical_and|jnp.logical_or|jnp.logical_xor}({x:b}, {broad x})"),
    select_n=(0.5, "lax.select_n(jnp.clip({of x int32}, 0, 2), {x:*}, {like x}, {like x})"),
    select=(0.5, "jnp.select([{x:fiu} > 1, {y:fiu} < 0], [{y}, {z:fiu}], {0|{x}})"),
    clamp=(0.5, "lax.clamp({like x}, {x:fiu}, {like x})"),
    clip=(0.7, "jnp.clip({x:f}, {-0.5|None}, 1.0)"),
    clip_whole=(0.3, "jnp.clip({x:iu}, {1|None}, 5)"),
    convert=(2, "{x:*}.astype('{dtype}')"),
    scale_to_bytes=(0.4, "({x:f} * {255|100|3e9}).astype('{dtype}')"),
    like_constants=(0.5, "jnp.{zeros_like({x:*})|ones_like({x})|full_like({x}, {number})}"),
    reduce_precision=(0.3, "lax.reduce_precision({x:f}, {5, 10|8, 7|8, 23})"),
    polynomial=(0.4, "jnp.polyval(jnp.array([0.5, -1.0, 2.0]), {x:f})"),
    digitize=(0.3, f"jnp.{{digitize({{x:f}}, {BINS})|searchsorted({BINS}, {{x}})}}"),
    interpolate=(0.3, f"jnp.interp({{x:f}}, {BINS}, jnp.array([0.0, 3.0, -1.0, 1.0]))"),
)


@step(8)
def binary(d: Draw) -> str:
    x = d.any("fiu")
    pair = [x, d.broadcastable(x)]
    d.rng.shuffle(pair)
    return f"{d.choice(*BINARY)}({pair[0]}, {pair[1]})"


@step(1)
def bits(d: Draw) -> str:
    x = d.any("iu")
    name, y = d.choice(*BITS), d.like(x)
    if name in ("jnp.gcd", "jnp.lcm"):  # of the smallest integer JAX does not find one, for ever
        x, y = (f"jnp.clip({v}, 0, 99)" for v in (x, y))
    return f"{name}({x}, {y})"


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


@step(0.3)
def bitcast(d: Draw) -> str:
    x = d.any("fiu")
    width = 8 * jnp_size(d.pool[x].dtype)
    return f"lax.bitcast_convert_type({x}, '{d.choice('int', 'uint', 'float')}{width}')"


def jnp_size(dtype: str) -> int:
    """Bytes of an element."""
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) // 8 if digits else 1
