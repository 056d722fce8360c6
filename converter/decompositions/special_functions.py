"""Compute special functions: incomplete beta and gamma, zeta, polygamma, nextafter, Bessel.

The incomplete gamma functions follow Cephes (Moshier), DLMF 8.11.4 and 8.9.2, like JAX: a power
series, or a continued fraction for large x. The incomplete beta function uses Lentz' method.
"""

import math
from collections.abc import Callable, Sequence
from functools import wraps

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.registered import decomposition
from converter.jax_versions import IGAMMA_OF_INFINITY

FloatFormula = Callable[..., jax.Array]


def in_float32(formula: FloatFormula) -> FloatFormula:
    """Return the formula with its operands broadcast to one shape and converted to float32 or
    wider.

    The result is converted back to the dtype of the first operand. This is a decorator.
    """

    @wraps(formula)
    def wrapper(*xs: jax.Array) -> jax.Array:
        dtype = jnp.promote_types(xs[0].dtype, jnp.float32)
        operands = jnp.broadcast_arrays(*(x.astype(dtype) for x in xs))
        return formula(*operands).astype(xs[0].dtype)

    return wrapper


decomposition("log2")(lambda x: jnp.log(x) / jnp.log(jnp.asarray(2, x.dtype)))

State = tuple[jax.Array, ...]


def _iterate_while_active(max_steps: int, step: Callable[[State], State], start: State) -> State:
    """Return the state after repeating a step while any element is active and steps remain.

    The first array of the state is True for the elements that are active. The second is the number
    of steps so far, which ``step`` increases, up to ``max_steps``.
    """
    return lax.while_loop(lambda state: jnp.any(state[0]) & (state[1] < max_steps), step, start)


BETA_STEPS = 300


@decomposition("regularized_incomplete_beta")
@in_float32
def regularized_incomplete_beta(a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """Return I_x(a, b) by DLMF 8.17.22, or 1 - I_{1-x}(b, a) where this converges faster.

    The result is NaN for NaN, for negative a or b, for x outside of 0 to 1, and where zero or
    infinite a and b have no common limit.
    """
    left, right = (a == 0) | (b == jnp.inf), (b == 0) | (a == jnp.inf)
    is_undefined = (a < 0) | (b < 0) | ~((x >= 0) & (x <= 1)) | (left & right)
    is_undefined = is_undefined | jnp.isnan(a) | jnp.isnan(b)
    fast = x < (a + 1) / (a + b + 2)
    p, q, y = jnp.where(fast, a, b), jnp.where(fast, b, a), jnp.where(fast, x, 1 - x)
    power = p * jnp.log(y) + q * jnp.log1p(-y)
    size = lax.lgamma(p) + (lax.lgamma(q) - lax.lgamma(p + q))
    is_regular = ~(is_undefined | left | right | (x == 0) | (x == 1))
    value = _beta_fraction(p, q, y, is_regular) * jnp.exp(power - size) / p
    value = jnp.where(fast, value, 1 - value)
    value = jnp.where((right & (x != 1)) | (x == 0), 0, value)
    value = jnp.where((left & (x != 0)) | (x == 1), 1, value)
    return jnp.where(is_undefined, jnp.nan, value)


def _beta_fraction(a: jax.Array, b: jax.Array, x: jax.Array, active: jax.Array) -> jax.Array:
    """Return the continued fraction of the incomplete beta function by Lentz' method.

    Its denominators are one, and its numerators come in pairs. The result is not meaningful where
    ``active`` is False.
    """
    half_unit = jnp.finfo(x.dtype).eps / 2
    tiny = jnp.finfo(x.dtype).tiny

    def avoid_zero(y: jax.Array) -> jax.Array:
        return jnp.where(jnp.abs(y) < tiny, tiny, y)

    def step(state: State) -> State:
        is_active, m, c, d, previous = state
        m = m + 1
        value, twice = previous, a + 2 * m
        odd = m * (b - m) * x / ((twice - 1) * twice)
        even = -(a + m) * (a + b + m) * x / (twice * (twice + 1))
        for numerator in (odd, even):
            c, d = avoid_zero(1 + numerator / c), 1 / avoid_zero(1 + numerator * d)
            value = value * c * d
        is_changing = jnp.abs(c * d - 1) > half_unit
        return is_active & is_changing, m, c, d, jnp.where(is_active, value, previous)

    d = 1 / avoid_zero(1 - (a + b) * x / (a + 1))
    none, ones = jnp.zeros((), x.dtype), jnp.ones_like(x)
    return _iterate_while_active(BETA_STEPS, step, (active, none, ones, d, d))[-1]


GAMMA_STEPS = 2000


@decomposition("igamma")
@in_float32
def igamma(a: jax.Array, x: jax.Array) -> jax.Array:
    """Return the regularized lower incomplete gamma function P(a, x).

    The result is NaN if the function is undefined, for example for negative operands.
    """
    uses_fraction = (x >= 1) & (x > a)
    value = jnp.where(
        uses_fraction, 1 - _gamma_fraction(a, x, uses_fraction), _gamma_series(a, x, ~uses_fraction)
    )
    value = jnp.where(x == 0, 0, jnp.where(x == jnp.inf, 1, value))
    value = jnp.where(_gamma_of_infinity(a), 0, value)
    return jnp.where(_gamma_undefined(a, x), jnp.nan, value)


@decomposition("igammac")
@in_float32
def igammac(a: jax.Array, x: jax.Array) -> jax.Array:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), or NaN where it
    is undefined, such as for negative operands."""
    uses_series = (x < 1) | (x < a)
    value = jnp.where(
        uses_series, 1 - _gamma_series(a, x, uses_series), _gamma_fraction(a, x, ~uses_series)
    )
    value = jnp.where((x == jnp.inf) | (a == 0), 0, value)
    value = jnp.where(_gamma_of_infinity(a), 1, value)
    return jnp.where(_gamma_undefined(a, x), jnp.nan, value)


def _gamma_undefined(a: jax.Array, x: jax.Array) -> jax.Array:
    """Return True for the elements at which P(a, x) and Q(a, x) are undefined."""
    both = ((a == 0) & (x == 0)) | (_gamma_of_infinity(a) & (x == jnp.inf))
    return (x < 0) | (a < 0) | both | jnp.isnan(a) | jnp.isnan(x)


def _gamma_of_infinity(a: jax.Array) -> jax.Array:
    """Return True for the elements with infinite ``a``, for which JAX returns the limit.

    JAX does so since the version of `IGAMMA_OF_INFINITY`. With an older JAX, return False for all
    elements.
    """
    return (a == jnp.inf) if IGAMMA_OF_INFINITY else jnp.zeros_like(a, bool)


def _gamma_factor(a: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return x^a exp(-x) / gamma(a), and a Boolean array that is False where this underflows."""
    power = a * jnp.log(x) - x - lax.lgamma(a)
    return jnp.exp(power), power >= -jnp.log(jnp.finfo(x.dtype).max)


def _gamma_series(a: jax.Array, x: jax.Array, active: jax.Array) -> jax.Array:
    """Return P(a, x) as a power series: `_gamma_factor` / a times the sum of x^n / ((a + 1) … (a +
    n)).

    The result is not meaningful where ``active`` is False.
    """
    factor, is_positive = _gamma_factor(a, x)
    is_active = active & is_positive & (x > 0) & ~_gamma_undefined(a, x)

    def step(state: State) -> State:
        is_active, n, term, total = state
        n = n + 1
        term = term * (x / n)
        new = jnp.where(is_active, total + term, total)
        return is_active & (term > new * jnp.finfo(x.dtype).eps), n, term, new

    ones = jnp.ones_like(a)
    start: State = (is_active, a, ones, ones)
    total = lax.while_loop(lambda state: jnp.any(state[0]), step, start)[-1]
    return total * factor / a


def _gamma_fraction(a: jax.Array, x: jax.Array, active: jax.Array) -> jax.Array:
    """Return Q(a, x) as a continued fraction, from its convergents p / q.

    The result is not meaningful where ``active`` is False.
    """
    factor, is_positive = _gamma_factor(a, x)
    is_active = active & is_positive & (x < jnp.inf) & ~_gamma_undefined(a, x)
    eps = jnp.finfo(x.dtype).eps

    def step(state: State) -> State:
        is_active, n, previous, p, q, p_before, q_before = state
        n = n + 1
        y, z = n * (n + 1 - a), x - a + (2 * n + 2)
        p_next, q_next = p * z - p_before * y, q * z - q_before * y
        convergent = p_next / q_next
        value = jnp.where(is_active & (q_next != 0), convergent, previous)
        is_changing = (q_next == 0) | (jnp.abs(previous - convergent) > eps * jnp.abs(convergent))
        scale = jnp.where(jnp.abs(p_next) > 1 / eps, eps, 1).astype(x.dtype)
        parts = (p_next, q_next, p, q)
        return is_active & is_changing, n, value, *(part * scale for part in parts)

    p, q = x + 1, (x - a + 2) * x
    none, ones = jnp.zeros((), x.dtype), jnp.ones_like(x)
    return (
        _iterate_while_active(GAMMA_STEPS, step, (is_active, none, p / q, p, q, ones, x))[2]
        * factor
    )


TERMS = 10
# B(2j) / (2j)! for j = 1, 2 …, in the formula of Euler and Maclaurin
BERNOULLI = (
    *(1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000),
    *(1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000),
)


@decomposition("zeta")
@in_float32
def zeta(x: jax.Array, q: jax.Array) -> jax.Array:
    """Return the Hurwitz zeta function: the sum of 1 / (q + n)^x for n = 0, 1 …

    The first `TERMS` terms are added. The remainder is approximated by the formula of Euler and
    Maclaurin.
    """
    total = sum((jnp.power(q + n, -x) for n in range(TERMS)), jnp.zeros_like(x))
    end = q + TERMS
    power = jnp.power(end, -x)
    total = total + power * end / (x - 1) + power / 2
    factor = power * x / end
    for j, coefficient in enumerate(BERNOULLI):
        total = total + coefficient * factor
        factor = factor * ((x + (2 * j + 1)) / end) * ((x + (2 * j + 2)) / end)
    return _handle_poles(x, q, total)


def _handle_poles(x: jax.Array, q: jax.Array, value: jax.Array) -> jax.Array:
    """Return ``value``, the Hurwitz zeta function of x and q, with the results at poles and outside
    of its domain.

    It is infinity where x is 1, NaN where x is below 1, and NaN for a negative or zero q unless x
    is an integer. At the poles, where q is zero or a negative integer, it is infinity if x is even
    and NaN otherwise.
    """
    poles = (q <= 0) & (q == jnp.floor(q))
    undefined = (x < 1) | ((q <= 0) & (x != jnp.floor(x)))
    value = jnp.where(undefined, jnp.nan, value)
    value = jnp.where(poles, jnp.where(x % 2 == 0, jnp.inf, jnp.nan), value)
    return jnp.where(x == 1, jnp.inf, value)


@decomposition("polygamma")
@in_float32
def polygamma(n: jax.Array, x: jax.Array) -> jax.Array:
    """Return (-1)^(n+1) n! zeta(n + 1, x), or digamma(x) if n is 0. The result is NaN if n is
    negative or not an integer."""
    sign = jnp.where(n % 2 == 0, -1, 1).astype(x.dtype)
    value = sign * jnp.exp(lax.lgamma(n + 1)) * zeta(n + 1, x)
    value = jnp.where(n == 0, lax.digamma(x), value)
    return jnp.where((n < 0) | (n != jnp.floor(n)), math.nan, value)


@decomposition("nextafter")
def nextafter(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the next float after ``x`` in the direction of ``y``.

    The result is ``y`` if both are equal, and NaN if one is NaN. Floats of one sign are in the
    order of their bits.
    """
    integer = jnp.dtype(f"int{8 * x.dtype.itemsize}")
    lowest = jnp.iinfo(integer).min
    x, y = jnp.broadcast_arrays(x, y)
    bits = lax.bitcast_convert_type(x, integer)
    size = jnp.where(bits < 0, bits - lowest, bits)
    grows = jnp.where(bits < 0, y < x, y > x)
    sign = jnp.where(jnp.where(size == 0, y < 0, bits < 0), lowest, 0).astype(integer)
    step = jnp.where((size == 0) | grows, 1, -1).astype(integer)
    moved = lax.bitcast_convert_type(size + step + sign, x.dtype)
    return jnp.where(x == y, y, jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.nan, moved))


# ------------------------------------------------------------------------------ Bessel functions

# Modified Bessel functions of the first kind, scaled. The coefficients are those of Cephes'
# Chebyshev series: in x / 2 - 2 for x up to 8, and in 32 / x - 2 for larger x.
# fmt: off
I0_BELOW = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824, 0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
    -0.02373741480589947, 0.04930528423967071, -0.09490109704804764, 0.17162090152220877,
    -0.3046826723431984, 0.6767952744094761,
)
I0_ABOVE = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17, 3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16, 1.7725601330565263e-15, 3.8116806693526224e-15,
    -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14, 3.8527783827421426e-13,
    7.180124451383666e-13, -1.7941785315068062e-12, -1.3215811840447713e-11,
    -3.1499165279632416e-11, 1.1889147107846439e-11, 4.94060238822497e-10, 3.3962320257083865e-09,
    2.266668990498178e-08, 2.0489185894690638e-07, 2.8913705208347567e-06, 6.889758346916825e-05,
    0.0033691164782556943, 0.8044904110141088,
)
I1_BELOW = (
    2.7779141127610464e-18, -2.111421214358166e-17, 1.5536319577362005e-16, -1.1055969477353862e-15,
    7.600684294735408e-15, -5.042185504727912e-14, 3.223793365945575e-13, -1.9839743977649436e-12,
    1.1736186298890901e-11, -6.663489723502027e-11, 3.625590281552117e-10, -1.8872497517228294e-09,
    9.381537386495773e-09, -4.445059128796328e-08, 2.0032947535521353e-07, -8.568720264695455e-07,
    3.4702513081376785e-06, -1.3273163656039436e-05, 4.781565107550054e-05, -0.00016176081582589674,
    0.0005122859561685758, -0.0015135724506312532, 0.004156422944312888, -0.010564084894626197,
    0.024726449030626516, -0.05294598120809499, 0.1026436586898471, -0.17641651835783406,
    0.25258718644363365,
)
I1_ABOVE = (
    7.517296310842105e-18, 4.414348323071708e-18, -4.6503053684893586e-17, -3.209525921993424e-17,
    2.96262899764595e-16, 3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
    1.0420276984128802e-14, 4.272440016711951e-14, -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.198551776245908e-13, 2.0356285441470896e-12, 1.4125807436613782e-11, 3.2526035830154884e-11,
    -1.8974958123505413e-11, -5.589743462196584e-10, -3.835380385964237e-09,
    -2.6314688468895196e-08, -2.512236237870209e-07, -3.882564808877691e-06,
    -0.00011058893876262371, -0.009761097491361469, 0.7785762350182801,
)
# fmt: on
# The number of coefficients that are needed in float32, counted from the last one.
FLOAT32_TERMS = (18, 7)


@decomposition("bessel_i0e")
@in_float32
def bessel_i0e(x: jax.Array) -> jax.Array:
    """Return the scaled modified Bessel function exp(-|x|) I0(x)."""
    return _scaled_bessel(jnp.abs(x), I0_BELOW, I0_ABOVE, jnp.ones_like(x))


@decomposition("bessel_i1e")
@in_float32
def bessel_i1e(x: jax.Array) -> jax.Array:
    """Return the scaled modified Bessel function exp(-|x|) I1(x)."""
    return jnp.sign(x) * _scaled_bessel(jnp.abs(x), I1_BELOW, I1_ABOVE, jnp.abs(x))


def _scaled_bessel(
    x: jax.Array, below: Sequence[float], above: Sequence[float], factor: jax.Array
) -> jax.Array:
    """Return a scaled modified Bessel function of ``x``, which is not negative.

    Arguments:
        below: Chebyshev coefficients for x up to 8.
        above: Chebyshev coefficients for larger x.
        factor: multiplies the series for x up to 8. The series for larger x is divided by sqrt(x).
    """
    if x.dtype == np.float32:
        below, above = below[-FLOAT32_TERMS[0] :], above[-FLOAT32_TERMS[1] :]
    below_8 = _chebyshev(x / 2 - 2, below) * factor
    return jnp.where(x <= 8, below_8, _chebyshev(32 / x - 2, above) / jnp.sqrt(x))


def _chebyshev(x: jax.Array, coefficients: Sequence[float]) -> jax.Array:
    """Return the sum of a Chebyshev series in ``x / 2`` by Clenshaw's recurrence.

    The coefficients are ordered from the highest to the constant one, which counts half.
    """
    second_last, last, value = (jnp.zeros_like(x) for _ in range(3))
    for coefficient in coefficients:
        second_last, last = last, value
        value = x * last - second_last + coefficient
    return (value - second_last) / 2
