"""Where roundings lead to infinity or NaN, an element is judged by JAX in float64, or is open."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.special import exp1

import converter
from converter.errors import CheckError
from converter.model.verdict import LEVELS
from converter.verify import checking
from converter.verify.watch import PassChecker, StepChangedError

X = np.array([0.1, 0.3, 0.88, 2, 3], np.float32)


def checked(wrong, fn, *args, **how):
    """The verdict on a file that computes `wrong`."""
    return converter.check(converter.to_onnx(wrong, [*args]).model, fn, [*args], **how)


def test_infinity_is_not_excused_by_a_moved_evaluation():
    """A rule made the file say so, and one evaluation of 32 ended in infinity."""
    verdict = checked(lambda x: jnp.log(x * 0), exp1, np.array([0.88], np.float32))
    assert not verdict.passed and verdict["output_0"].max_abs == np.inf
    assert {d.level for d in verdict.differences} == {*LEVELS}
    assert checked(exp1, exp1, np.array([2.5], np.float32)).passed


POLES = np.linspace(0.1, 3, 40, dtype=np.float32)[[1, 5, 9, 10, 20]]
"""A pole at the first of them, numbers beside it at the others."""


def pole(x):
    """One over what roundings make zero or not; float64 has no sum with float32."""
    three = np.full(x.shape, 3, np.float32)
    return 1 / lax.sub(lax.mul(lax.div(x, three), three), x)


def beside_infinity(x):
    """Infinity in place of numbers."""
    return jnp.full_like(x, jnp.inf) + x


def test_open_elements_are_refused_unless_they_are_accepted():
    assert np.isfinite(pole(POLES)).sum() == 4
    verdict = checked(beside_infinity, pole, POLES)
    assert not verdict.passed and all(d.open for d in verdict.differences)
    assert "it is open: roundings" in repr(verdict)
    verdict = checked(beside_infinity, pole, POLES, accept_open=["output_0"])
    assert verdict.passed and verdict["output_0"].max_abs < np.inf
    found, runs = verdict.elements["output_0"], 2 * len(LEVELS)
    assert (found.judged, found.open) == (runs, 4 * runs)
    assert "open, not judged" in repr(verdict)


def test_a_number_in_place_of_a_pole_is_a_large_one():
    """Evaluations beside the pole give millions, and what is small is none of them."""
    assert checked(pole, pole, POLES[:1]).passed
    assert not checked(lambda x: x * 0 + 1, pole, POLES[:1]).passed


def test_open_elements_are_named_by_export_and_bisect(monkeypatch):
    wrong = converter.to_onnx(beside_infinity, [POLES])

    def planted(graph, settings, retrace, *_):
        return replace(wrong, retrace=retrace)

    for module in ("bisection", "conversion"):
        monkeypatch.setattr(f"converter.api.{module}.build_export", planted)
    with pytest.raises(CheckError, match=r"it is open: .*accept_open=\['output_0'\]"):
        converter.to_onnx(pole, [POLES], verify=[POLES])
    assert converter.to_onnx(pole, [POLES], verify=[POLES], accept_open=["output_0"]).verdict.passed
    assert "it is open" in str(converter.bisect(pole, [POLES]))


SMALL = np.array([1.0], np.float32)
LARGEST = np.nextafter(np.finfo(np.float32).max / np.array([1.7], np.float32), np.float32(0))

EITHER = {
    "as large as float32 goes": (lambda x: x * 1.7, lambda x: x * jnp.inf, LARGEST),
    "another zero": (lambda x: 1 / jnp.cumsum(x * 0), lambda x: -1 / jnp.cumsum(x * 0), SMALL),
    "a root of what cancels": (
        lambda x: jnp.sqrt(x / 3 * 3 - x),
        lambda x: x * 0 + 2e-4,
        POLES[3:4],
    ),
}


@pytest.mark.parametrize("name", EITHER)
def test_roundings_decide_between_a_number_and_none(name):
    """Both are right, and no error is infinite."""
    fn, other, x = EITHER[name]
    verdict = checked(other, fn, x)
    assert verdict.passed, verdict
    assert verdict["output_0"].max_abs < np.inf
    assert verdict.elements["output_0"].rounding_decides == 2 * len(LEVELS)
    assert "roundings decide" in repr(verdict)
    assert not checked(lambda x: x * 0 + 0.5, fn, x).passed


INTEGERS = {
    "steps": (lambda x: jnp.floor(x * 3 / 0.1).astype(int), lambda y: y + 2),
    "choices": (lambda x: jnp.argmax(jnp.stack([x, x * 0 - 1, x / 3 * 3], -1), -1), lambda y: 1),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_that_rounding_changes_is_one_of_those_it_can_be(name):
    fn, wrong = INTEGERS[name]
    assert checked(fn, fn, X).passed
    assert not checked(lambda x: fn(x) * 0 + wrong(fn(x)), fn, X).passed


def test_every_level_is_run_more_than_once(monkeypatch):
    """A kernel that reads memory which it has not set gives other numbers the second time."""
    runs, run = [], checking.run_sample

    def unset(live, inputs, sample):
        runs.append(live)
        got = run(live, inputs, sample)
        first = runs.count(live) == 1
        return got if first else {name: y + 1 for name, y in got.items()}

    monkeypatch.setattr(checking, "run_sample", unset)
    verdict = converter.check(converter.to_onnx(jnp.sin, [X]), jnp.sin, [X])
    assert [d.level for d in verdict.differences] == [*LEVELS]


def test_a_trace_that_differs_is_found():
    watch = PassChecker(converter.to_onnx(jnp.sin, [X]).retrace, [("given", [X])], jnp.cos)
    with pytest.raises(StepChangedError, match="after 'trace'"):
        watch.check_trace()
    assert not jax.config.jax_enable_x64


def test_a_matrix_that_roundings_leave_without_factors_is_judged_by_float64():
    """All moved evaluations are NaN; the file is off by what its large numbers are rounded by."""
    rng = np.random.default_rng(5)
    basis, _ = np.linalg.qr(rng.standard_normal((90, 90)))
    matrix = ((basis * np.geomspace(2e3, 1e-3, 90)) @ basis.T).astype(np.float32)
    matrix = (matrix + matrix.T) / 2
    right = jnp.linalg.cholesky
    wrong = (lambda m: right(m).at[0, 0].multiply(1.001), lambda m: right(m).at[50, 3].multiply(-1))
    verdict, *others = (
        converter.check(converter.to_onnx(fn, [matrix.shape]), right, [matrix])
        for fn in (right, *wrong)
    )
    assert verdict.passed, verdict.differences[:1]
    assert not any(other.passed for other in others)


LARGE = 1e6 * (np.eye(4) + np.random.default_rng(6).standard_normal((2, 4, 4)) / 9)
SIDES = np.random.default_rng(7).standard_normal((2, 4, 3))


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (jnp.linalg.solve, [np.float32(LARGE), np.float32(SIDES)]),
        (lambda x: lax.linalg.triangular_solve(x * x, x, lower=True), [np.float32(LARGE)]),
        pytest.param(jax.scipy.linalg.expm, [np.float32(LARGE / 2e6)], marks=pytest.mark.full),
        pytest.param(jnp.linalg.inv, [np.complex64(LARGE * (1 + 0.3j))], marks=pytest.mark.full),
    ],
    ids=["solve", "triangular", "expm", "complex inv"],
)
def test_a_factor_beside_a_larger_one_is_no_excuse(fn, args):
    """Both triangles of a factorization lie in one matrix, and here all of one is below 1."""
    assert checked(fn, fn, *args).passed
    assert not checked(lambda *xs: fn(*xs) * 1.001, fn, *args).passed
    assert not checked(lambda *xs: fn(*xs).at[..., 0, 1].multiply(1.001), fn, *args).passed


SCALED = SIDES[0] * [1e7, 1, 1e-3]
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
def test_a_column_beside_a_larger_one_is_no_excuse(fn):
    """Each is solved for by itself, whatever the others are."""
    scaled = np.float32(SCALED)
    assert checked(fn, fn, scaled).passed
    assert not checked(lambda b: fn(b).at[0, 1].multiply(1.001), fn, scaled).passed
    assert not checked(lambda b: fn(b).at[1, 2].multiply(1.001), fn, scaled).passed


def spread(size, far):
    """A symmetric matrix whose rows and columns are of such sizes, the same correlations."""
    x = np.random.default_rng(8).standard_normal((size, size))
    sizes = np.geomspace(1, far, size)
    return (x @ x.T / size + np.eye(size)) * sizes * sizes[:, None]


def factors(a):
    """Both, each by itself: no pivot is another for roundings."""
    packed, _, _ = lax.linalg.lu(a)
    return jnp.tril(packed, -1), jnp.triu(packed)


@pytest.mark.parametrize(
    ("fn", "matrix", "places"),
    [
        (jnp.linalg.cholesky, spread(5, 1e6), [(0, 0), (2, 1), (4, 0)]),
        pytest.param(
            *(jnp.linalg.cholesky, spread(5, 1e6) + 0j, [(0, 0), (2, 1), (4, 0)]),
            marks=pytest.mark.full,
        ),
        (lambda a: factors(a)[1], spread(5, 1) * np.geomspace(1, 1e7, 5), [(0, 0), (1, 1), (0, 2)]),
    ],
    ids=["cholesky", "complex cholesky", "lu"],
)
def test_a_row_or_column_beside_a_larger_one_is_no_excuse(fn, matrix, places):
    """A pivot of Cholesky's is as exact as its row is large, one of Gauss's as its column is."""
    matrix = np.asarray(matrix, np.complex64 if np.iscomplexobj(matrix) else np.float32)
    assert checked(fn, fn, matrix).passed
    for place in places:
        wrong = checked(lambda a, place=place: fn(a).at[place].multiply(1.001), fn, matrix)
        assert not wrong.passed, (place, wrong)


REFLECTORS = np.float32(np.tril(SIDES[0], -1) + 1e6 * np.triu(np.ones((4, 3))))
TAUS = np.float32([0.9, 1.2, 0.4])


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, t: lax.linalg.householder_product(a, t),
        lambda a, t: lax.linalg.ormqr(a, t, np.float32(SIDES[1]))[:, :1],
        lambda a, t: lax.linalg.ormqr(a, t, np.float32(SCALED))[:, 1:],
    ],
    ids=["product", "applied", "applied to columns"],
)
def test_a_triangle_beside_reflectors_is_no_excuse(fn):
    """What `geqrf` gives holds both, and only what is below the diagonal is read."""
    assert checked(fn, fn, REFLECTORS, TAUS).passed
    wrong = checked(lambda a, t: fn(a, t).at[2, 0].multiply(1.001), fn, REFLECTORS, TAUS)
    assert not wrong.passed, wrong


def down_to_zero(x):
    """Powers, and how many: what is a little off never meets the zero at which its loop ends."""

    def turn(state):
        left, power, count = state
        return left - 1, power * 1.1, count + 1

    start = x * 30, x, jnp.int32(0)  # 3.0 of 0.1, which is not exact in binary
    return lax.while_loop(lambda state: state[0] != 0, turn, start)[1:]


def within(fn):
    """A loop in a branch of a loop."""

    def step(carry, x):
        return carry, lax.cond(x > 0, fn, lambda x: (x, jnp.int32(0)), x)

    return lambda x: lax.scan(step, 0, x)[1]


@pytest.mark.parametrize("fn", [lambda x: down_to_zero(x[0]), within(down_to_zero)])
def test_a_loop_that_roundings_keep_from_its_end_is_left(fn):
    """Its floats are open and its integers have to be right."""
    x = np.array([0.1, 0.2], np.float32)
    assert checked(fn, fn, x).passed
    for wrong in (lambda y, n: (y * 1.001, n), lambda y, n: (y, n + 1)):
        verdict = checked(lambda x, wrong=wrong: wrong(*fn(x)), fn, x)
        assert not verdict.passed, verdict
