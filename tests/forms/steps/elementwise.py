"""Steps with elementwise arithmetic, comparisons, selections and conversions."""

import numpy as np

from tests.forms.draw import Draw
from tests.forms.steps.registry import lines, step

lines("""
FLOAT = {jnp.sin|jnp.cos|jnp.tanh|jnp.exp|jnp.log1p|jnp.expm1|jnp.arctan|jnp.arcsinh|jnp.sinh
    |jnp.cosh|jnp.exp2|jnp.cbrt|jnp.rint|jnp.trunc|jnp.floor|jnp.ceil|jnp.tan|jnp.isnan|jnp.isinf
    |jnp.isfinite|jnp.signbit|jnp.sinc|jnp.deg2rad|jnp.nan_to_num|jnp.round|lax.round|lax.is_finite
    |lax.erf|lax.erfc|jax.nn.sigmoid|jax.nn.softplus|jax.nn.silu|jax.nn.elu|jax.nn.selu
    |jax.nn.celu|jax.nn.leaky_relu|jax.nn.relu6|jax.nn.hard_swish|jax.nn.hard_sigmoid
    |jax.nn.hard_tanh|jax.nn.log_sigmoid|jax.nn.soft_sign|jax.nn.mish|jax.nn.squareplus
    |jax.scipy.special.ndtr|jax.scipy.special.log_ndtr|jax.scipy.stats.norm.logcdf}
POSITIVE = {jnp.log|jnp.sqrt|lax.rsqrt|jnp.log2|jnp.log10|lax.lgamma|lax.digamma|jnp.reciprocal
    |jax.scipy.special.entr}
BINARY_FLOAT = {jnp.arctan2|jnp.hypot|jnp.logaddexp|jnp.copysign|jnp.heaviside|jnp.fmax|jnp.fmin
    |jnp.logaddexp2|jnp.nextafter|jnp.float_power}
BINARY = {jnp.add|jnp.subtract|jnp.multiply|jnp.maximum|jnp.minimum|jnp.equal|jnp.not_equal|jnp.less
    |jnp.less_equal|jnp.greater|jnp.greater_equal|jnp.add|jnp.subtract|jnp.multiply}
BINS = jnp.array([-1.0, 0.0, 0.5, 2.0])
8 unary_float {FLOAT}({x:f})
2 unary_positive {POSITIVE}(jnp.abs({x:f}) + {0.5|1e-3|2})
0.7 unary_unit {jnp.arcsin|jnp.arccos|jnp.arctanh|lax.erf_inv}(jnp.tanh({x:f}) * 0.9)
2 unary_any {jnp.abs|jnp.square|jnp.sign|jnp.negative|jax.nn.relu|-|jnp.positive}({x:fi})
1 unary_whole {jnp.invert|lax.population_count|lax.clz|jnp.bitwise_not|jnp.abs}({x:iu})
0.7 logical_not {~|jnp.logical_not}({x:b})
1 binary_mixed {jnp.add|jnp.multiply|jnp.maximum}({x:*}, {y:*})
2 float_with_number {s=+|-|*|<|>=|==} {n=number} => {{x:f} {s} {n}|{n} {s} {x}}
1 whole_with_number {s=+|-|*|<|>=|==} {n=2|3|1|7} => {{x:iu} {s} {n}|{n} {s} {x}}
1.3 divide {x:f} / (jnp.abs({broad x}) + {1|0.5|1e-8})
0.7 divide_whole {x:iu} {//|%|/} jnp.maximum({broad x}, 1)
0.7 divide_by_number {x:f} {/|/|%|//} {2.5|3|0.125}
0.3 divide_by_whole {lax.div|lax.rem|jnp.floor_divide|jnp.remainder|jnp.fmod}({x:iu},
    jnp.full_like({x}, {3|2|7}))
8 binary {x:fiu} {y=broad x} => {BINARY}({{x}, {y}|{y}, {x}})
0.6 bits jnp.{bitwise_and|bitwise_or|bitwise_xor}({x:iu}, {like x})
# JAX does not end for the smallest integer.
0.4 divisor jnp.{gcd|lcm}(jnp.clip({x:iu}, 0, 99), jnp.clip({like x}, 0, 99))
1 binary_float {BINARY_FLOAT}({x:f}, {like x})
0.4 power (jnp.abs({x:f}) + 0.1) ** {0.5|1.5|-0.5|{like x}}
0.6 power_of_number {x:fiu} ** {2|3|0|1|5}
0.7 shift {lax.shift_left|lax.shift_right_logical|lax.shift_right_arithmetic}({x:iu}, {like x})
1 logical {jnp.logical_and|jnp.logical_or|jnp.logical_xor}({x:b}, {broad x})
0.5 select_n lax.select_n(jnp.clip({of x int32}, 0, 2), {x:*}, {like x}, {like x})
0.5 select jnp.select([{x:fiu} > 1, {y:fiu} < 0], [{y}, {z:fiu}], {0|{x}})
0.5 clamp lax.clamp({like x}, {x:fiu}, {like x})
0.7 clip jnp.clip({x:f}, {-0.5|None}, 1.0)
0.3 clip_whole jnp.clip({x:iu}, {1|None}, 5)
2 convert {x:*}.astype('{dtype}')
0.4 scale_to_bytes ({x:f} * {255|100|3e9}).astype('{dtype}')
0.5 like_constants jnp.{zeros_like({x:*})|ones_like({x})|full_like({x}, {number})}
0.3 reduce_precision lax.reduce_precision({x:f}, {5, 10|8, 7|8, 23})
0.4 polynomial jnp.polyval(jnp.array([0.5, -1.0, 2.0]), {x:f})
0.3 digitize jnp.{digitize({x:f}, {BINS})|searchsorted({BINS}, {x})}
0.3 interpolate jnp.interp({x:f}, {BINS}, jnp.array([0.0, 3.0, -1.0, 1.0]))
""")


@step(3)
def where(d: Draw) -> str:
    x = d.any()
    y = d.broadcastable(x)
    spec = d.pool[x]
    if d.chance(0.5):
        return f"jnp.where({d.of(spec.shape, 'bool')}, {x}, {y})"
    if spec.kind == "b":
        return f"{x} {d.choice('&', '|', '^')} {y}"
    return f"jnp.where({x} > {d.choice('0', '1', d.broadcastable(x))}, {d.choice(x, '0', y)}, {y})"


@step(0.3)
def bitcast(d: Draw) -> str:
    x = d.any("fiu")
    width = 8 * np.dtype(d.pool[x].dtype).itemsize
    return f"lax.bitcast_convert_type({x}, '{d.choice('int', 'uint', 'float')}{width}')"
