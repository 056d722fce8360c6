"""Resizes: in every spelling, as weights, at many sizes, and what is left alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.image import resize

import converter
from converter.fuse.resampling import known_kinds
from converter.ir.formulas import ALIGNED
from converter.verify.sessions import run, session
from tests.conformance import Case, assert_close, assert_exports
from tests.programs.resize import corners, half_pixel, hats, keep, to, translated
from zoo.architectures.parts.resize import resize_aligned


def test_the_equal_rows_of_a_loop():
    """The loop reads what it needs from outside, and so has no operands."""

    def fn(x):
        _, rows = lax.scan(lambda c, _: (c, x[0] * 2), 0.0, None, length=5)
        return resize(rows, (6, 7), "cubic", antialias=False)

    assert_exports(Case("loop", fn, tolerance=0.25))


def test_a_half_between_neighbours_is_rounded_as_written():
    """XLA multiplies by 1 / 25 here, which gives 0 where floor(2.5 * 10 / 25) is 1."""
    x = np.arange(20, dtype=np.float32).reshape(2, 10)
    export = converter.to_onnx(to(2, 25, method="nearest"), [x])
    (got,) = run(export, [x]).values()
    np.testing.assert_array_equal(got, x[:, (2 * np.arange(25) + 1) * 10 // 50])
    assert export.report.fused["Resize"] == 1


# ---------------------------------------------------------------------------------------- weights


class Table(eqx.Module):
    positions: jax.Array

    def __call__(self, x):
        return x + resize(self.positions, (3, *x.shape[-2:]), "cubic")


TABLE = jax.vmap(Table(jax.random.normal(jax.random.key(0), (3, 6, 5))))


def test_a_table_at_a_known_size_is_a_weight():
    export = assert_exports(Case("table", TABLE, ((2, 3, 9, 4),)))
    assert export.report.histogram == {"Add": 1}
    assert export.report.near_misses == []
    assert [v.name for v in export.graph.params] == ["positions"]


def test_a_table_at_any_size_is_resized():
    export = converter.to_onnx(TABLE, [("B", 3, "H", "W")])
    assert export.report.fused["Resize"] == 1
    for size in ((4, 9), (6, 5)):
        x = np.random.default_rng(0).standard_normal((2, 3, *size)).astype(np.float32)
        (got,) = run(export, [x]).values()
        assert_close(got, TABLE(x), 2)


# ------------------------------------------------------------------------------------ many sizes


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: keep(x, *y.shape, method="linear", antialias=False),
        lambda x, y: keep(x, *y.shape, method="cubic"),
        lambda x, y: resize_aligned(jnp.asarray(x), y.shape),
    ],
    ids=["linear", "cubic", "aligned"],
)
def test_one_file_for_all_sizes(fn):
    """Both directions and odd ratios, through one file."""
    live = session(converter.to_onnx(fn, [(2, "H", "W"), ("M", "N")]))
    rng = np.random.default_rng(0)
    for *before, m, n in (
        *((1, 1, 4, 3), (7, 3, 3, 7), (5, 9, 5, 9), (64, 31, 1, 2)),
        *((2, 3, 37, 16), (29, 30, 30, 29), (8, 8, 16, 4)),
    ):
        x, y = rng.standard_normal((2, *before), np.float32), np.zeros((m, n), np.float32)
        (got,) = live.run(None, {"x": x, "y": y})
        assert_close(got, fn(x, y), 3, f"{before} to {y.shape}")


# -------------------------------------------------------------------------------------- near misses


@pytest.mark.parametrize(
    ("fn", "shape", "opset", "reason"),
    [
        (to(2, 9, 4, method="lanczos3"), (2, 5, 7), 23, "not those of a kernel"),
        (to(2, 3, 4, method="cubic", antialias=False), (2, 5, 7), 23, "slower than products"),
        (to(2, 3, 4), (2, 5, 7), 17, "needs opset 18"),
        (lambda x: keep(x, 3, 4), ("B", "H", "W"), 17, "needs opset 18"),
        (lambda x: keep(x, 4, antialias=False, method="cubic"), ("B", "H"), 23, "slower than"),
        (lambda x: keep(x, 4, method="nearest"), ("B", "H"), 23, "rounding"),
        (lambda x: translated(x, 4), ("B", "H"), 23, "where a size is 1"),
    ],
)
def test_near_misses(fn, shape, opset, reason):
    export = converter.to_onnx(fn, [shape], opset=opset)
    assert export.report.fused["Resize"] == 0
    assert any(m.pattern == "Resize" and reason in m.reason for m in export.report.near_misses)


def test_aligned_corners_between_large_sizes():
    """Half-pixel positions are as near as JAX rounds; those of aligned corners are nearer."""
    assert known_kinds(hats(1100, corners(1100, 1101)), 17) == (ALIGNED,)


ROWS = np.random.default_rng(0).random((7, 9)).astype(np.float32)
MIRRORED = hats(7, half_pixel(7, 9))[:, ::-1].copy()
LOOKALIKES = {
    "other weights": lambda x: x @ (ROWS / ROWS.sum(0)),
    "mirrored": lambda x: x @ MIRRORED,
    "not normalised": lambda x: x @ (resize(jnp.eye(7), (7, 9), "linear") * 2),
    "indices at run time": lambda x: x[:, jnp.argsort(x[0])],
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes_are_left_alone(name):
    assert_exports(Case(name, LOOKALIKES[name], ((2, 7),), ops={"Resize": 0}))
