"""A program for each public function of JAX's namespaces, also with operands of one number and with
derivatives.

A row has the arguments of functions and their names; functions with a star are in the default tier.
A letter in the arguments is an operand of `OPERANDS`, everything else is Python. Functions without
a row have a reason in `EXCLUDED`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, Case
from tests.programs.ways import total

RNG = np.random.default_rng(17)


def drawn(low: float, high: float, *shape: int) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


OPERANDS: Mapping[str, np.ndarray] = {
    **{letter: (2 * RNG.standard_normal((3, 4))).astype(np.float32) for letter in "xyz"},
    **{letter: drawn(0.1, 0.9, 3, 4) for letter in "pqr"},
    **{letter: drawn(0.1, 12, 3, 4) for letter in "gh"},
    **{letter: drawn(-2, 2, 4) for letter in "vw"},
    **{letter: drawn(-1, 1, 3, 3) + 3 * np.eye(3, dtype=np.float32) for letter in "st"},
    **{letter: RNG.integers(0, 5, (3, 4), np.int32) for letter in "nm"},
    **{letter: RNG.integers(0, 2, (3, 4)).astype(bool) for letter in "bc"},
    "i": RNG.integers(-9, 9, 4, np.int32),
    "k": np.array([3, 9], np.uint32),
}
"""Operands by letter: floats of both signs, floats in the unit interval, positive floats, vectors,
square matrices, integers, booleans."""

ELEMENTWISE = "xyzpqrgh"
NUMBERS = (0.0, 0.5, 3.0)
"""The numbers of operands that hold one number."""

Calls = Mapping[str, str]
NAMESPACES: dict[str, Calls] = {
    "jax.nn": {
        "x": """
            celu* elu* gelu glu hard_sigmoid* hard_silu* hard_swish hard_tanh identity
            leaky_relu* log_sigmoid log_softmax* logmeanexp logsumexp mish* relu relu6 selu*
            sigmoid silu* soft_sign* softmax* softplus* sparse_plus sparse_sigmoid squareplus*
            standardize* swish tanh
        """,
        "g": "log1mexp",
        "n, 5": "one_hot",
        "x[:, None], y[:, None], z[:, None]": "dot_product_attention",
    },
    "jax.scipy.special": {
        "x": """
            dawsn digamma erf erfc erfcx expit fresnel gamma gammaln gammasgn i0 i0e i1 i1e
            log_ndtr log_softmax loggamma logsumexp ndtr sici softmax
        """,
        "g": "entr* exp1* expi factorial spence",
        "p": "erfinv logit ndtri",
        "x, y": "owens_t",
        "g, h": "beta betaln comb gammainc gammaincc kl_div poch rel_entr* xlog1py* xlogy*",
        "g, x": "boxcox",
        "p, x": "boxcox1p",
        "n, g": "expn polygamma",
        "g + 1, h": "zeta",
        "g, h, p": "betainc",
        "p, q, x": "hyp1f1",
        "g + 1, 2": "multigammaln",
        "4": "bernoulli",
        "p, q, g, r / 2": "hyp2f1",
        "v, v=3, n_iter=20": "bessel_jn",
        "lax.complex(x, y)": "wofz",
        "n[0] % 3, n[0] % 2, v, w, n_max=3": "sph_harm_y",
    },
    "jax.numpy": {
        "x": """
            abs absolute all amax amin angle any arcsinh arctan argmax argmin argsort around
            array asarray asinh atan atleast_1d atleast_2d atleast_3d average block
            broadcast_arrays cbrt ceil clip column_stack concat concatenate conj conjugate
            copy corrcoef cos cosh count_nonzero cov cumprod cumsum deg2rad degrees diag
            diagflat diagonal diff dstack ediff1d empty_like exp exp2 expm1 fabs flip fliplr
            flipud floor frexp gradient histogram histogram_bin_edges histogramdd hstack i0
            imag iscomplex isfinite isinf isnan isneginf isposinf isreal lexsort logical_not
            matrix_transpose max mean median min modf nan_to_num nanargmax nanargmin
            nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum
            nanvar negative ones_like positive prod ptp rad2deg radians ravel real
            reciprocal rint rot90 round sign signbit sin sinc sinh sort sort_complex spacing
            square squeeze stack std sum tan tanh trace transpose trapezoid tril triu trunc
            unstack unwrap var vstack zeros_like
        """,
        "g": "arccosh acosh log log10 log1p log2 sqrt",
        "p": "acos arccos arcsin arctanh asin atanh",
        "x, y": """
            add allclose append arctan2 array_equal array_equiv atan2 copysign divide divmod
            equal float_power floor_divide fmax fmin fmod full_like greater greater_equal
            heaviside hypot inner isclose isin kron less less_equal linspace logaddexp
            logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply
            nextafter not_equal outer polyadd polysub polyval remainder subtract tensordot
            true_divide vdot vecdot
        """,
        "p, q": "geomspace logspace",
        "g, x": "pow power",
        "x, v": "matvec",
        "[b, c], [x, y]": "select",
        "n + 1, m + 1": """
            bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor gcd
            lcm left_shift right_shift
        """,
        "x, n": "ldexp take",
        "x, n % 3, axis=0": "take_along_axis",
        "n": "bitwise_count bitwise_invert bitwise_not invert",
        "b": "packbits",
        "x, 1": "argpartition array_split delete expand_dims partition repeat resize rollaxis tile",
        "x, 2": "hsplit pad",
        "x, 3": "split vsplit",
        "x[None], 2": "dsplit",
        "x, (2, 3, 4)": "broadcast_to",
        "x, (2, 6)": "reshape",
        "v, w": "convolve correlate dot histogram2d ix_ matmul meshgrid polydiv polymul roll",
        "x, p[0]": "nanpercentile nanquantile percentile quantile",
        "v, jnp.sort(w)": "digitize",
        "jnp.sort(v), w": "searchsorted",
        "n[0], (2, 3)": "unravel_index",
        "(n[0], n[1]), (6, 7), mode='clip'": "ravel_multi_index",
        "s, t": "cross",
        "v, x.T": "vecmat",
        "v": "cumulative_prod cumulative_sum poly polyder polyint vander",
        "s": "diag_indices_from tril_indices_from triu_indices_from",
        "'ij->j', x": "einsum",
        "x, (1, 0)": "permute_dims",
        "x, 0, 1": "insert moveaxis swapaxes",
        "b, x, y": "where",
        "5": """
            arange bartlett blackman diag_indices eye hamming hanning identity ones tri
            zeros tril_indices triu_indices
        """,
        "5, 2.0": "full kaiser",
        "jnp.cumsum, 1, x": "apply_along_axis",
        "jnp.sum, x, (0,)": "apply_over_axes",
        "b, size=5": "argwhere flatnonzero nonzero",
        "x, jnp.int32": "astype",
        "n.ravel(), length=6": "bincount",
        "n % 2, [x, y], mode='clip'": "choose",
        "b[0], x.T, 0, size=3": "compress",
        "b, x, size=5": "extract",
        "s, 7.0, inplace=False": "fill_diagonal",
        "lambda a, e: a * 2 + e, (3, 4)": "fromfunction",
        "(2, 3)": "indices",
        "v, jnp.sort(w), i": "interp",
        "n, m, size=6": "intersect1d setdiff1d setxor1d union1d",
        "v, n[0], w, inplace=False": "put",
        "x, n % 3, 5.0, axis=0, inplace=False": "put_along_axis",
        "x, b, y[0], inplace=False": "place",
        "x, [b, c & ~b], [1.0, 2.0, 3.0]": "piecewise",
        "v, w, 2": "polyfit",
        "n, size=6": "unique unique_all unique_counts unique_inverse unique_values",
        "n.astype(jnp.uint8)": "unpackbits",
    },
    "jax.numpy.linalg": {
        "s": "cholesky det inv slogdet eigvalsh",
        "x": """
            cond diagonal matrix_norm matrix_rank matrix_transpose norm pinv svdvals trace
            vector_norm qr
        """,
        "s, t": "cross solve",
        "x, y": "lstsq tensordot vecdot",
        "v, w": "matmul outer",
        "s, 3": "matrix_power",
        "[s, t, x]": "multi_dot",
        "jnp.kron(s, t).reshape(3, 3, 9), 2": "tensorinv",
        "s, t[0]": "tensorsolve",
    },
    "jax.scipy.linalg": {
        "x": "block_diag lu lu_factor",
        "v": "circulant companion fiedler fiedler_companion hankel toeplitz",
        "s": "cholesky det expm inv cho_factor",
        "(jnp.linalg.cholesky(s @ s.T), True), t": "cho_solve",
        "(s, jnp.arange(3)), t": "lu_solve",
        "v, v[1:]": "leslie",
        "v, 3": "convolution_matrix",
        "3": "dft helmert hilbert invhilbert invpascal pascal",
        "4": "hadamard",
        "s, t": "expm_frechet solve solve_triangular qr_multiply",
        "v, v[1:], eigvals_only=True": "eigh_tridiagonal",
    },
    "jax.numpy.fft": {
        "x": """
            fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn
            rfft rfft2 rfftn
        """,
        "5": "fftfreq rfftfreq",
    },
    "jax.scipy.fft": {"x": "dct dctn idct idctn"},
    "jax.scipy.signal": {
        "x, y": "convolve convolve2d correlate correlate2d fftconvolve",
        "x": "detrend",
        "x.ravel(), nperseg=4": "stft welch",
        "x.ravel(), y.ravel(), nperseg=4": "csd",
        "lax.complex(x, y)": "istft",
    },
    "jax.scipy.integrate": {"x, y": "trapezoid"},
    "jax.scipy.ndimage": {"x, [n, m / 2], 1": "map_coordinates"},
    "jax.scipy.cluster.vq": {"x, y": "vq"},
    "jax.scipy.stats": {"n": "mode", "x": "rankdata sem"},
    "jax.ops": {"v, i, 5": "segment_max segment_min segment_prod segment_sum"},
    "jax.image": {"x, (5, 7), 'linear'": "resize"},
    "jax.random": {
        "KEY(k)": "exponential key_data",
        "KEY(k), (3,)": """
            bits cauchy gumbel laplace logistic maxwell normal rademacher split uniform
        """,
        "KEY(k), 3": "ball fold_in orthogonal",
        "KEY(k), x": "categorical permutation",
        "KEY(k), p": "bernoulli geometric rayleigh",
        "KEY(k), g": "chisquare dirichlet gamma loggamma pareto poisson t wald",
        "KEY(k), g, h": "beta f binomial",
        "KEY(k), 9, (2,), False": "choice",
        "KEY(k), (3,), 0, 9": "randint",
        "KEY(k), 2.0, (3,)": "generalized_normal",
        "KEY(k), -1.0, x": "truncated_normal",
        "KEY(k), p, 1.0, q": "triangular",
        "KEY(k), 1.0, p": "weibull_min",
        "KEY(k), v[:3], s @ s.T": "multivariate_normal",
        "KEY(k), 5, p": "multinomial",
        "KEY(k), 1.0, 2.0, (3,)": "double_sided_maxwell",
        "KEY(k), g, (3, 4)": "lognormal",
    },
}
DISTRIBUTIONS = {
    **dict.fromkeys(("cauchy", "laplace", "logistic", "norm", "gumbel_r", "gumbel_l"), "x"),
    **{"gennorm": "x, g", "t": "x, g + 0.5"},
    **dict.fromkeys(("chi2", "gamma"), "g, h"),
    **{"bernoulli": "n % 2, p", "beta": "p, g, h", "binom": "m, n + m, p", "nbinom": "n, g, p"},
    **{"geom": "n + 1, p", "poisson": "n, g", "pareto": "g + 1, h", "expon": "g", "uniform": "p"},
    **{"betabinom": "m, n + m, g, h", "truncnorm": "x / 9, -1.0, p + 1", "vonmises": "x, g"},
    **{"wrapcauchy": "g / 2, p", "multivariate_normal": "v, 0.1, 2.0"},
    **{"dirichlet": "v[:3] ** 2 / (v[:3] ** 2).sum(), g[0, :3]"},
    "multinomial": "m[0], m[0].sum(), v**2 / (v**2).sum()",
}
"""The modules of `jax.scipy.stats`, with the arguments of their densities and cumulative functions.
Inverses of these take a probability first."""

INVERSE = ("ppf", "isf")


def distributions() -> Iterator[tuple[str, str, str]]:
    for name, operands in DISTRIBUTIONS.items():
        module = import_module(f"jax.scipy.stats.{name}")
        more = operands.partition(",")[2]
        for method in public(module):
            inverse = f"r,{more}" if more else "r"
            yield module.__name__, method, inverse if method in INVERSE else operands


EXCLUDED: Mapping[str, Mapping[str, str]] = {
    "JAX runs it on NVIDIA's devices only": {
        "jax.nn": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    },
    "it is no function of arrays alone that gives arrays": {
        "jax.numpy": """
            array_repr array_str broadcast_shapes can_cast einsum_path empty from_dlpack frombuffer
            fromfile fromiter frompyfunc fromstring get_printoptions iscomplexobj isdtype isrealobj
            isscalar issubdtype iterable load mask_indices ndim printoptions promote_types
            result_type save savez set_printoptions shape size trim_zeros vectorize
        """,
        "jax.random": "PRNGKey clone key key_dtype key_impl wrap_key_data",
    },
    "it is refused: its iterations have no counterpart in ONNX": {
        "jax.numpy": "roots",
        "jax.numpy.linalg": "eig eigvals",
        "jax.scipy.linalg": "funm hessenberg rsf2csf schur solve_sylvester sqrtm",
    },
    "what it gives is one of several, and other tables have it": {
        "jax.numpy.linalg": "eigh svd",
        "jax.scipy.linalg": "eigh polar qr svd",
        "jax.image": "scale_and_translate",
    },
}
"""Public functions without a row, by reason and namespace."""


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield module, function and arguments of each program."""
    for module, calls in NAMESPACES.items():
        for arguments, names in calls.items():
            yield from ((module, name, arguments) for name in names.split())
    yield from distributions()


def excluded(module: str) -> set[str]:
    """Return the functions of a namespace that have a reason in `EXCLUDED`."""
    return {name for names in EXCLUDED.values() for name in names.get(module, "").split()}


def public(module: ModuleType) -> list[str]:
    """Return the public functions of a namespace."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not isinstance(value, type) and not name.startswith("_")
    ]


# ------------------------------------------------------------------------------------- programs

UNIFORM = ("jax.nn", "jax.scipy.special", "jax.scipy.stats", "jax.numpy")
"""Namespaces whose functions are also called with operands of one number."""

SLOPED = ("jax.nn", "jax.scipy.special", "jax.scipy.stats")
"""Namespaces whose functions are also differentiated."""

NO_SLOPE = {
    *(f"scipy.stats.beta.{name}" for name in ("cdf", "logcdf", "sf", "logsf")),
    *("scipy.special.betainc", "scipy.stats.gumbel_l.ppf", "scipy.stats.gumbel_r.ppf"),
    *(f"scipy.special.{name}" for name in ("gammainc", "gammaincc", "poch")),
    *(
        f"scipy.stats.{name}.{of}"
        for name in ("gamma", "chi2")
        for of in ("cdf", "logcdf", "sf", "logsf")
    ),
    *("scipy.stats.poisson.cdf", "scipy.stats.gennorm.cdf"),
}
"""Functions that JAX does not differentiate by all of their operands, or whose derivative the
converter refuses."""


def called(function: Callable[..., Any], arguments: str) -> tuple[list[str], Callable[..., Any]]:
    """Return the letters of the operands in some arguments, and a function of these operands. Keys
    are replaced by their numbers."""
    letters = [letter for letter in OPERANDS if re.search(rf"\b{letter}\b", arguments)]
    names = {"F": function, "jnp": jnp, "lax": lax, "KEY": jax.random.wrap_key_data}
    call = eval(f"lambda {', '.join(letters)}: F({arguments})", names)
    return letters, lambda *operands: jax.tree.map(numbers, call(*operands))


def numbers(result: Any) -> Any:
    is_key = jnp.issubdtype(jnp.result_type(result), jax.dtypes.prng_key)
    return jax.random.key_data(result) if is_key else result


def slope(fn: Callable[..., Any], positions: list[int]) -> Callable[..., Any]:
    return jax.grad(lambda *operands: total(fn(*operands)), positions)


def with_uniform_operands(
    fn: Callable[..., Any], positions: list[int], sloped: bool
) -> Callable[..., Any]:
    """Return a function with the outputs for given operands, for operands of one number, and
    derivatives."""

    def program(*operands: Any) -> dict[str, Any]:
        def uniform(number: float, positions: list[int]) -> list[Any]:
            return [
                jnp.full_like(x, number) if i in positions else x for i, x in enumerate(operands)
            ]

        outputs = {"given": fn(*operands)}
        outputs |= {f"of {number}": fn(*uniform(number, positions)) for number in NUMBERS}
        if len(positions) > 1:
            outputs |= {
                f"of 0 at {position}": fn(*uniform(0.0, [position])) for position in positions
            }
        if sloped:
            outputs["slope"] = slope(fn, positions)(*operands)
            outputs["slope of 0.5"] = slope(fn, positions)(*uniform(0.5, positions))
        return outputs

    return program


def program(module: str, name: str, arguments: str) -> Iterator[Case]:
    """Yield the case of a function, or nothing if the installed JAX does not have it."""
    starred, name = name.endswith("*"), name.removesuffix("*")
    function = vars(import_module(module)).get(name)
    if function is None:
        return
    letters, fn = called(function, arguments)
    positions = [i for i, letter in enumerate(letters) if letter in ELEMENTWISE]
    title, tags = f"{module.removeprefix('jax.')}.{name}", DEFAULT if starred else frozenset[str]()
    if positions and module.startswith(UNIFORM) and module != "jax.numpy.linalg":
        fn = with_uniform_operands(
            fn, positions, module.startswith(SLOPED) and title not in NO_SLOPE
        )
    yield Case(title, fn, [OPERANDS[letter] for letter in letters], tolerance=64, tags=tags)


PROGRAMS = [case for row in rows() for case in program(*row)]
