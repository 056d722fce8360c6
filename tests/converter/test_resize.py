"""Resizes: in every spelling, as weights, at many sizes, and what is left alone."""

from dataclasses import dataclass
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax
from jax.image import resize

import converter
from converter.fuse.resampling import known_kinds
from converter.ir.formulas import ALIGNED
from converter.verify.sessions import run, session
from tests.conformance import Case, assert_close, assert_exports
from tests.judges.evaluator import evaluate
from tests.programs.resize import aligned, corners, half_pixel, hats, keep, to, translated
from zoo.models.resize import resize_aligned


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


@pytest.mark.parametrize(("opset", "rows"), [(17, 18), (18, 4)])
def test_the_reference_implementation_agrees(opset, rows):
    """ONNX's own evaluator, which is no runtime's: the operator is what the file means."""
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 5)).astype(np.float32)
    methods = ("nearest", "linear", "cubic")
    for fn in (*(to(1, 2, rows, 10, method=method) for method in methods), aligned(rows, 10)):
        (got,) = evaluate(ir.to_proto(converter.to_onnx(fn, [x], opset=opset).model), [x])
        assert_close(got.astype(np.float32), fn(x), 3)


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


# ------------------------------------------------------------------------------------- every axis

SIZES, OTHERS = (3, 4, 2, 5, 3), (7, 3, 5, 4, 2)
KERNELS = [(method, aa) for method in ("linear", "cubic", "cubic-pytorch", "lanczos3")
           for aa in (True, False)]  # fmt: skip


@dataclass(frozen=True)
class Everywhere:
    """All ways to choose axes of an array of that many, each resized from its size to its other.

    Where it is ``named``, the first axis is open and stays, and the others go the other way.
    """

    rank: int
    method: str
    antialias: bool
    opset: int
    named: bool

    def __str__(self) -> str:
        words = ["antialias"] * self.antialias + ["named"] * self.named
        return " ".join(map(str, (self.rank, self.method, *words, self.opset)))

    def sizes(self) -> list[tuple[int, ...]]:
        before, after = (OTHERS, SIZES) if self.named else (SIZES, OTHERS)
        first = before[: self.rank]
        choices = product(*zip(first, after[: self.rank], strict=True))
        return [
            first,
            *(c for c in choices if c != first and not (self.named and c[0] != first[0])),
        ]

    def called(self, x: jax.Array) -> list[jax.Array]:
        return [
            resize(
                x, (x.shape[0] if self.named else shape[0], *shape[1:]), self.method, self.antialias
            )
            for shape in self.sizes()[1:]
        ]


EVERYWHERE = [
    Everywhere(rank, *kernel, opset, named)
    for rank, kernel, opset, named in product(
        range(1, 6), [*KERNELS, ("nearest", False)], (17, 18, 23), (False, True)
    )
    if rank > 1 or not named
]


def is_usual(row: Everywhere) -> bool:
    """Those of the default tests: the operator's own kernels, of one and of several images."""
    kernel = (row.method, row.antialias) in (("linear", False), ("cubic", True), ("nearest", False))
    return kernel and row.opset == 18 and row.rank in (1, 3, 4) and row.named == (row.rank == 4)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=str(row), marks=() if is_usual(row) else pytest.mark.full)
        for row in EVERYWHERE
    ],
)
def test_any_axes_of_any_rank(row):
    first, *others = row.sizes()
    x = np.random.default_rng(0).standard_normal(first).astype(np.float32)
    export = converter.to_onnx(
        row.called, [("B", *first[1:]) if row.named else first], opset=row.opset
    )
    got = run(export, [x]).values()
    for shape, actual, wanted in zip(others, got, jax.jit(row.called)(x), strict=True):
        assert_close(actual, wanted, 2, f"{first} to {shape}")
