"""Files differ from JAX for NaN and infinities exactly as the deviations in their reports say."""

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

ANY_NUMBER = {"approx_top_k": "JAX puts NaN first in float32 alone"}
"""Operations that may return any other number, with the reasons."""

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
"""Kinds of difference by the operation whose deviation states them."""

STAYS = frozenset({"max_pool_scatter", "approx_top_k", "conv_transpose"})
"""Operations whose deviation a strict conversion keeps and reports."""

TESTED_ELSEWHERE = {
    "sum_pool": "test_exactness.py: a window that is longer than its axis",
    "avg_pool": "test_exactness.py: a window that is longer than its axis",
    "leaky_relu": "tests/onnxruntimes: versions below 1.27",
}
"""Deviations that no planted number shows, with the tests that show them."""


def assert_reported(observation: Observation, strict: bool) -> None:
    """Assert that the reported deviations of the file allow all differences that were observed."""
    sentences = observation.export.report.deviations
    reported = {
        op for op in DIFFERENCES if any(s.startswith(TABLE[op].sentence) for s in sentences)
    }
    assert not strict or reported <= STAYS
    allowed = frozenset[Kind]().union(*(DIFFERENCES[op] for op in reported))
    assert observation.kinds.keys() <= allowed, observation.examples


@pytest.mark.each("program.op")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_differences_are_reported(program):
    """Differences are reported. A strict conversion has only those of the operations in `STAYS`."""
    for strict in (False, True):
        observation = observe(program, program.opset, strict=strict)
        assert_reported(observation, strict)
        assert program.unseen or bool(observation.export.report.deviations) == bool(
            observation.kinds
        )
        operations = {node.op.name for node in observation.export.graph.walk()}
        assert strict or program.op in operations, operations


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize(
    ("opset", "dtype"),
    [(17, "float32"), (20, "float32"), (23, "float16"), (24, "float64"), (26, "float32")],
)
def test_differences_are_reported_in_other_dtypes_and_opsets(program, opset, dtype):
    """Differences are reported at other opsets, dtypes and optimization levels."""
    if opset < program.since:
        pytest.skip(f"needs opset {program.since}")
    if dtype == "float64" and program.op in ("conv", "conv_transpose"):
        pytest.skip("XLA decides by the dtype which zeros it multiplies by NaN: docs/exactness.md")
    with jax.enable_x64(dtype == "float64"):
        for strict in (False, True):
            observation = observe(
                program, opset, strict=strict, dtype=dtype, levels=("disabled", "all")
            )
            assert_reported(observation, strict)


@pytest.mark.full
@pytest.mark.parametrize("op", DIFFERENCES)
def test_differences_of_the_table_occur(op):
    """Each kind of difference in the table occurs in ONNX Runtime."""
    programs = [program for program in PROGRAMS if op in (program.op, program.deviation)]
    observations = [observe(program, program.opset, rounds=4) for program in programs]
    kinds = frozenset[Kind]().union(*(observation.kinds.keys() for observation in observations))
    assert kinds == DIFFERENCES[op] or (op in ANY_NUMBER and kinds)


def test_every_deviation_is_planted_or_a_rounding():
    rounded = {op for op, deviation in TABLE.items() if OFF_BY.search(deviation.sentence)}
    assert rounded - DIFFERENCES.keys() <= {row.op.name for row in ROWS}
    assert TABLE.keys() == rounded | DIFFERENCES.keys() | TESTED_ELSEWHERE.keys()
