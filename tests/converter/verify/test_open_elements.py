"""Elements for which rounding leads to infinity or NaN: judged by JAX in float64, or open."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.special import exp1

import converter
from converter.errors import CheckError
from converter.ir.complex_pairs import pack_complex
from converter.model.verdict import LEVELS
from converter.verify import checking
from converter.verify.explanation import row_rounding_error
from converter.verify.watch import PassChecker, StepChangedError

X = np.array([0.1, 0.3, 0.88, 2, 3], np.float32)


def check_file(wrong, fn, *args, **options):
    """Return the verdict on a file of ``wrong`` that is compared with ``fn``."""
    return converter.check(converter.to_onnx(wrong, [*args]).model, fn, [*args], **options)


def test_infinity_is_not_excused_by_a_perturbed_evaluation():
    """An infinity that the file computes by a wrong rule is an error.

    It is one although one of 32 perturbed evaluations is infinite too.
    """
    verdict = check_file(lambda x: jnp.log(x * 0), exp1, np.array([0.88], np.float32))
    assert not verdict.passed and verdict["output_0"].max_abs == np.inf
    assert {d.level for d in verdict.differences} == {*LEVELS}
    assert check_file(exp1, exp1, np.array([2.5], np.float32)).passed


POLES = np.linspace(10, 1000, 40, dtype=np.float32)[[5, 1, 2, 3, 6]]
"""The function `pole` is infinite at the first of these numbers and finite at the others, also if
it is compiled."""


def pole(x):
    """Return one over a difference that is zero or not, depending on rounding.

    ``one`` stays float32, so that an evaluation in float64 fails.
    """
    one = np.full(x.shape, 1, np.float32)
    return 1 / lax.sub(jnp.exp(jnp.log(lax.mul(x, one))), x)


def infinite(x):
    """Return infinities, where `pole` has numbers."""
    return jnp.full_like(x, jnp.inf) + x


def test_open_elements_fail_unless_they_are_accepted():
    assert np.isfinite(pole(POLES)).sum() == 4
    verdict = check_file(infinite, pole, POLES)
    assert not verdict.passed and all(d.open for d in verdict.differences)
    assert "it is open: rounding decides" in repr(verdict)
    verdict = check_file(infinite, pole, POLES, accept_open=["output_0"])
    assert verdict.passed and verdict["output_0"].max_abs < np.inf
    counts, runs = verdict.elements["output_0"], 2 * len(LEVELS)
    assert (counts.judged, counts.open) == (runs, 4 * runs)
    assert "open, not judged" in repr(verdict)


def test_small_numbers_in_place_of_a_pole_are_errors():
    """A small number in place of a pole is an error, since perturbed evaluations give millions."""
    assert check_file(pole, pole, POLES[:1]).passed
    assert not check_file(lambda x: x * 0 + 1, pole, POLES[:1]).passed


def test_open_elements_are_named_by_export_and_bisect(monkeypatch):
    wrong = converter.to_onnx(infinite, [POLES])

    def build_wrong_export(graph, settings, retrace, *_):
        return replace(wrong, retrace=retrace)

    for module in ("bisection", "conversion"):
        monkeypatch.setattr(f"converter.api.{module}.build_export", build_wrong_export)
    with pytest.raises(CheckError, match=r"it is open: .*accept_open=\['output_0'\]"):
        converter.to_onnx(pole, [POLES], verify=[POLES])
    assert converter.to_onnx(pole, [POLES], verify=[POLES], accept_open=["output_0"]).verdict.passed
    assert "it is open" in str(converter.bisect(pole, [POLES]))


SMALL = np.array([1.0], np.float32)
LARGEST = np.nextafter(np.finfo(np.float32).max / np.array([1.7], np.float32), np.float32(0))

AMBIGUOUS = {
    "as large as float32 goes": (lambda x: x * 1.7, lambda x: x * jnp.inf, LARGEST),
    "another zero": (lambda x: 1 / jnp.cumsum(x * -0.0), lambda x: 1 / (x * 0), SMALL),
    "a root of what cancels": (
        lambda x: jnp.sqrt(x / 3 * 3 - x),
        lambda x: x * 0 + 2e-4,
        np.float32([0.1 + 10 * 2.9 / 39]),
    ),
}
"""By name: a function, another function that rounding cannot distinguish from it, and the input."""


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_rounding_may_decide_between_a_number_and_none(name):
    """Both functions pass, and no reported error is infinite."""
    fn, alternative, x = AMBIGUOUS[name]
    verdict = check_file(alternative, fn, x)
    assert verdict.passed, verdict
    assert verdict["output_0"].max_abs < np.inf
    assert verdict.elements["output_0"].rounding_decides == 2 * len(LEVELS)
    assert "roundings decide" in repr(verdict)
    assert not check_file(lambda x: x * 0 + 0.5, fn, x).passed


INTEGERS = {
    "steps": (lambda x: jnp.floor(x * 3 / 0.1).astype(int), lambda y: y + 2),
    "choices": (lambda x: jnp.argmax(jnp.stack([x, x * 0 - 1, x / 3 * 3], -1), -1), lambda y: 1),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_that_rounding_changes_are_judged(name):
    fn, wrong = INTEGERS[name]
    assert check_file(fn, fn, X).passed
    assert not check_file(lambda x: fn(x) * 0 + wrong(fn(x)), fn, X).passed


def test_every_level_is_run_more_than_once(monkeypatch):
    """A kernel that reads uninitialized memory gives other numbers in the second run of a level."""
    runs, run = [], checking.run_sample

    def run_changed(session, inputs, sample):
        runs.append(session)
        outputs = run(session, inputs, sample)
        is_first = runs.count(session) == 1
        return outputs if is_first else {name: y + 1 for name, y in outputs.items()}

    monkeypatch.setattr(checking, "run_sample", run_changed)
    verdict = converter.check(converter.to_onnx(jnp.sin, [X]), jnp.sin, [X])
    assert [d.level for d in verdict.differences] == [*LEVELS]


def test_wrong_traces_are_found():
    watch = PassChecker(converter.to_onnx(jnp.sin, [X]).retrace, [("given", [X])], jnp.cos)
    with pytest.raises(StepChangedError, match="after 'trace'"):
        watch.check_trace()
    assert not jax.config.jax_enable_x64


def test_matrices_without_perturbed_factors_are_judged_by_float64():
    """If all perturbed evaluations are NaN, float64 decides.

    The file may differ by the rounding of the matrix's large numbers, also where JAX happens to be
    more accurate: ``rounded`` factorizes a matrix whose elements differ in the last digit.
    """
    rng = np.random.default_rng(5)
    root = rng.standard_normal((100, 100))
    matrix = (root @ root.T).astype(np.float32)
    right = jnp.linalg.cholesky
    signs = np.tril(np.float32(rng.choice([-1, 0, 1], matrix.shape)))
    last_digits = 1 + 2.0**-23 * (signs + np.tril(signs, -1).T)
    functions = {
        "right": right,
        "rounded": lambda m: right(m * last_digits),
        "scaled": lambda m: right(m).at[0, 0].multiply(1.001),
        "negated": lambda m: right(m).at[50, 3].multiply(-1),
    }
    verdicts = {
        name: converter.check(converter.to_onnx(fn, [matrix.shape]), right, [matrix])
        for name, fn in functions.items()
    }
    passed = {name for name, verdict in verdicts.items() if verdict.passed}
    assert passed == {"right", "rounded"}, verdicts


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_the_rounding_error_of_a_row_is_that_of_its_worst_element(dtype):
    """An accurate row has the rounding of its largest number. A vector has no rows."""
    expected = np.array([[1, 2, 3], [4, np.inf, 16]], dtype)
    truth = pack_complex(expected.astype(np.promote_types(dtype, np.float64)))
    truth[(0, 1, *(0,) * (truth.ndim - 2))] += 1e-3
    errors = row_rounding_error(expected, truth).reshape(2, -1)
    rows = 4 * 3**0.5 * np.array([1e-3, 16 * 2.0**-24])
    np.testing.assert_allclose(errors, np.broadcast_to(rows[:, None], errors.shape))
    first = row_rounding_error(expected[0], truth[0]).reshape(3, -1)
    np.testing.assert_allclose(first, np.broadcast_to([[0], [4e-3], [0]], first.shape))


LARGE = 1e6 * (np.eye(4) + np.random.default_rng(6).standard_normal((2, 4, 4)) / 9)
RIGHT_SIDES = np.random.default_rng(7).standard_normal((2, 4, 3))


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (jnp.linalg.solve, [np.float32(LARGE), np.float32(RIGHT_SIDES)]),
        (lambda x: lax.linalg.triangular_solve(x * x, x, lower=True), [np.float32(LARGE)]),
        pytest.param(jax.scipy.linalg.expm, [np.float32(LARGE / 2e6)], marks=pytest.mark.full),
        pytest.param(jnp.linalg.inv, [np.complex64(LARGE * (1 + 0.3j))], marks=pytest.mark.full),
    ],
    ids=["solve", "triangular", "expm", "complex inv"],
)
def test_errors_of_the_smaller_factor_are_found(fn, args):
    """Both triangles of a factorization are in one matrix, and all elements of one are below 1.

    Errors relative to the smaller triangle are found.
    """
    assert check_file(fn, fn, *args).passed
    assert not check_file(lambda *xs: fn(*xs) * 1.001, fn, *args).passed
    assert not check_file(lambda *xs: fn(*xs).at[..., 0, 1].multiply(1.001), fn, *args).passed


SCALED = RIGHT_SIDES[0] * [1e7, 1, 1e-3]
DIAGONALS = np.float32(LARGE[0] / 1e6)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda b: jnp.linalg.solve(DIAGONALS, b), marks=pytest.mark.full),
        lambda b: lax.linalg.triangular_solve(DIAGONALS, b.T).T,
        lambda b: lax.linalg.tridiagonal_solve(*DIAGONALS[1:], b),
        lambda b: jnp.linalg.qr(b)[1].at[1:, 0].set(0),
        pytest.param(
            lambda b: jnp.linalg.solve(DIAGONALS * (1 + 2j), b + 0j), marks=pytest.mark.full
        ),
    ],
    ids=["solve", "on the right", "tridiagonal", "qr", "complex"],
)
def test_errors_of_smaller_columns_are_found(fn):
    """Columns are solved independently, so errors relative to a small column are found."""
    sides = np.float32(SCALED)
    assert check_file(fn, fn, sides).passed
    assert not check_file(lambda b: fn(b).at[0, 1].multiply(1.001), fn, sides).passed
    assert not check_file(lambda b: fn(b).at[1, 2].multiply(1.001), fn, sides).passed


def scaled_matrix(size, ratio):
    """Return a symmetric matrix with rows and columns of sizes from 1 to ``ratio``.

    The correlations do not depend on the sizes.
    """
    x = np.random.default_rng(8).standard_normal((size, size))
    scales = np.geomspace(1, ratio, size)
    return (x @ x.T / size + np.eye(size)) * scales * scales[:, None]


def factors(a):
    """Return both triangles of an LU factorization; its pivots do not depend on rounding."""
    packed, _, _ = lax.linalg.lu(a)
    return jnp.tril(packed, -1), jnp.triu(packed)


@pytest.mark.parametrize(
    ("fn", "matrix", "indices"),
    [
        (jnp.linalg.cholesky, scaled_matrix(5, 1e6), [(0, 0), (2, 1), (4, 0)]),
        pytest.param(
            *(jnp.linalg.cholesky, scaled_matrix(5, 1e6) + 0j, [(0, 0), (2, 1), (4, 0)]),
            marks=pytest.mark.full,
        ),
        (
            lambda a: factors(a)[1],
            scaled_matrix(5, 1) * np.geomspace(1, 1e7, 5),
            [(0, 0), (1, 1), (0, 2)],
        ),
    ],
    ids=["cholesky", "complex cholesky", "lu"],
)
def test_errors_of_smaller_rows_or_columns_are_found(fn, matrix, indices):
    """Errors relative to a small row or column of a factorization are found.

    The rounding error of a pivot depends on its row in Cholesky's and on its column in Gauss's.
    """
    matrix = np.asarray(matrix, np.complex64 if np.iscomplexobj(matrix) else np.float32)
    assert check_file(fn, fn, matrix).passed
    for index in indices:
        wrong = check_file(lambda a, index=index: fn(a).at[index].multiply(1.001), fn, matrix)
        assert not wrong.passed, (index, wrong)


REFLECTORS = np.float32(np.tril(RIGHT_SIDES[0], -1) + 1e6 * np.triu(np.ones((4, 3))))
TAUS = np.float32([0.9, 1.2, 0.4])


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, t: lax.linalg.householder_product(a, t),
        lambda a, t: lax.linalg.ormqr(a, t, np.float32(RIGHT_SIDES[1]))[:, :1],
        lambda a, t: lax.linalg.ormqr(a, t, np.float32(SCALED))[:, 1:],
    ],
    ids=["product", "applied", "applied to columns"],
)
def test_errors_of_reflectors_with_a_large_triangle_are_found(fn):
    """The large upper triangle of the result of `geqrf` does not excuse errors.

    Only the reflectors below the diagonal are read.
    """
    assert check_file(fn, fn, REFLECTORS, TAUS).passed
    wrong = check_file(lambda a, t: fn(a, t).at[2, 0].multiply(1.001), fn, REFLECTORS, TAUS)
    assert not wrong.passed, wrong


def down_to_zero(x):
    """Return a power and its exponent from a loop that ends at exactly zero.

    A slightly perturbed state never reaches that zero.
    """

    def step(state):
        remaining, power, count = state
        return remaining - 1, power * 1.1, count + 1

    start = x * 30, x, jnp.int32(0)  # 0.1 · 30 is 3 only by rounding
    return lax.while_loop(lambda state: state[0] != 0, step, start)[1:]


def in_loop_branch(fn):
    """Return a function with ``fn``, a loop, in a branch of another loop."""

    def step(carry, x):
        return carry, lax.cond(x > 0, fn, lambda x: (x, jnp.int32(0)), x)

    return lambda x: lax.scan(step, 0, x)[1]


@pytest.mark.parametrize("fn", [lambda x: down_to_zero(x[0]), in_loop_branch(down_to_zero)])
def test_loops_that_rounding_makes_endless_are_judged(fn):
    """Errors of the floats and the integers of a loop that rounding makes endless are found."""
    x = np.array([0.1, 0.2], np.float32)
    assert check_file(fn, fn, x).passed
    for wrong in (lambda y, n: (y * 1.001, n), lambda y, n: (y, n + 1)):
        verdict = check_file(lambda x, wrong=wrong: wrong(*fn(x)), fn, x)
        assert not verdict.passed, verdict
