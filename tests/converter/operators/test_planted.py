"""Where files differ from JAX for NaN and infinities is what their reports say, and no more."""

from collections.abc import Mapping
from itertools import product

import jax
import pytest

from converter.legalize.deviations import deviations
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from tests.converter.operators.planting import Kind, Observation, observe
from tests.converter.operators.programs import PROGRAMS
from tests.converter.operators.rows import OFF_BY, ROWS

TABLE = {op.name: deviation for op, deviation in deviations(find_target(DEFAULT_TARGET)).items()}

DROPPED: frozenset[Kind] = frozenset({("NaN", "number"), ("NaN", "infinity")})
OTHERS: frozenset[Kind] = frozenset({("integer", "integer")})

OPEN = {"approx_top_k": "JAX puts NaN first in float32 alone"}
"""Operations that may give any other number, and why."""

DIFFERENCES: Mapping[str, frozenset[Kind]] = {
    **dict.fromkeys(("reduce_max", "reduce_min", "scatter-max", "scatter-min"), DROPPED),
    **dict.fromkeys(("argmax", "argmin", "top_k"), OTHERS),
    "approx_top_k": OTHERS | {*product(("NaN", "infinity", "number"), repeat=2)},
    **dict.fromkeys(("lstm", "gru", "rnn", "resize"), DROPPED),
    "conv_transpose": DROPPED,
    "max_pool": DROPPED | {("infinity", "number")},
    "max_pool_scatter": frozenset({("number", "number")}),
    "attention": frozenset({("number", "NaN"), ("number", "number")}),
    "rotary": frozenset({("number", "NaN"), ("infinity", "NaN")}),
    "group_norm": frozenset({("infinity", "NaN")}),
    "grid_sample": frozenset({("NaN", "number"), ("infinity", "NaN")}),
}
"""What JAX has and the file has not, by the operation whose deviation says so."""

STAYS = frozenset({"max_pool_scatter", "approx_top_k", "conv_transpose"})
"""Operations that a strict conversion writes as they are, and says so."""

ELSEWHERE = {
    "sum_pool": "test_exactness.py: a window that is longer than its axis",
    "avg_pool": "test_exactness.py: a window that is longer than its axis",
    "leaky_relu": "tests/onnxruntimes: versions below 1.27",
}
"""Deviations that show in no number that is planted, and where they are tried."""


def assert_said(seen: Observation, strict: bool) -> None:
    """What was seen is what the deviations of the file say."""
    sentences = seen.export.report.deviations
    said = {op for op in DIFFERENCES if any(s.startswith(TABLE[op].sentence) for s in sentences)}
    assert not strict or said <= STAYS
    allowed = frozenset[Kind]().union(*(DIFFERENCES[op] for op in said))
    assert seen.kinds.keys() <= allowed, seen.examples


@pytest.mark.each("program.op")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_differences_are_said(program):
    """By default, and by a strict conversion, which has none but of what cannot be mended."""
    for strict in (False, True):
        seen = observe(program, program.opset, strict=strict)
        assert_said(seen, strict)
        assert program.unseen or bool(seen.export.report.deviations) == bool(seen.kinds)
        written = {node.op.name for node in seen.export.graph.walk()}
        assert strict or program.op in written, written


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize(
    ("opset", "dtype"),
    [(17, "float32"), (20, "float32"), (23, "float16"), (24, "float64"), (26, "float32")],
)
def test_differences_are_said_elsewhere(program, opset, dtype):
    """At other opsets, in other dtypes, with and without ONNX Runtime's optimiser."""
    if opset < program.since:
        pytest.skip(f"needs opset {program.since}")
    if dtype == "float64" and program.op in ("conv", "conv_transpose"):
        pytest.skip("XLA decides by the dtype which zeros it multiplies by NaN: docs/exactness.md")
    with jax.enable_x64(dtype == "float64"):
        for strict in (False, True):
            seen = observe(program, opset, strict=strict, dtype=dtype, levels=("disabled", "all"))
            assert_said(seen, strict)


@pytest.mark.full
@pytest.mark.parametrize("op", DIFFERENCES)
def test_each_difference_occurs(op):
    """So that the table has none that ONNX Runtime has not."""
    programs = [program for program in PROGRAMS if op in (program.op, program.deviation)]
    seen = [observe(program, program.opset, rounds=4) for program in programs]
    found = frozenset[Kind]().union(*(each.kinds.keys() for each in seen))
    assert found == DIFFERENCES[op] or (op in OPEN and found)


def test_every_deviation_is_planted_or_a_rounding():
    rounded = {op for op, deviation in TABLE.items() if OFF_BY.search(deviation.sentence)}
    assert rounded - DIFFERENCES.keys() <= {row.op.name for row in ROWS}
    assert TABLE.keys() == rounded | DIFFERENCES.keys() | ELSEWHERE.keys()
