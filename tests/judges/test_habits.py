"""Runtimes still do what `docs/runtimes.md` says, and what they mended is right from then on."""

from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
from packaging.version import Version

import converter
from converter.targets.versions import versions
from tests.judges.habits import DIES, TABLES, VERSIONS, Arrays, Habit, Runtime, kernels
from tests.judges.habits.page import page
from tests.judges.runtimes import Apart
from tests.runtimes import load
from tests.runtimes.installed import need

HABITS = [
    pytest.param(runtime, habit, id=f"{runtime}-{habit.name}")
    for runtime, tables in TABLES.items()
    for habits in tables.values()
    for habit in habits
]
# Where the text is open, or where the evaluator itself is at fault, there is nobody to ask.
SETTLED = [row for row in HABITS if row.values[0] != "onnx.reference" and row.values[1].settled]
PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "onnx.reference": "onnx"}
PACKAGES |= load.PACKAGES
ROUNDING = 2e-6


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[Runtime, Apart]]:
    found = {runtime: Apart(runtime) for runtime in TABLES}
    yield found
    for process in found.values():
        process.close()


def test_the_page_is_what_the_tables_say():
    assert (Path(__file__).parents[2] / "docs" / "runtimes.md").read_text() == page()


@pytest.mark.full
@pytest.mark.parametrize("runtime", TABLES)
def test_versions(runtime):
    need(PACKAGES[runtime])
    assert version(PACKAGES[runtime]) in VERSIONS[runtime], "look at the tables, then change this"


@pytest.mark.full
@pytest.mark.parametrize(("runtime", "habit"), HABITS)
def test_still_so(runtime, habit: Habit, processes):
    need(PACKAGES[runtime])
    if habit.opset < 27 and habit.ir_version < 14:
        onnx.checker.check_model(habit.proto, full_check=True)
    got = processes[runtime](habit.proto.SerializeToString(), habit.inputs)
    if version(PACKAGES[runtime]) not in versions(habit.versions):
        assert not isinstance(got, BaseException), got
        assert same(got, habit.right), f"it gives {got} again"
    elif isinstance(habit.seen, str):
        assert isinstance(got, BaseException), f"it runs now, and gives {got}"
        assert isinstance(got, BrokenProcessPool) == (habit.seen == DIES), got
        assert habit.seen == DIES or habit.seen in str(got)
    else:
        assert not isinstance(got, BaseException), got
        assert not same(habit.seen, habit.right)
        assert same(got, habit.seen), f"it gives {got} now"


def test_every_quirk_is_looked_at():
    shown = {habit.name for _, habit in (row.values for row in HABITS)}
    assert {q.name for target in converter.TARGETS.values() for q in target.quirks} <= shown


@pytest.mark.full
@pytest.mark.parametrize(("runtime", "habit"), SETTLED)
def test_what_is_right(runtime, habit: Habit, processes):
    """The standard's evaluator agrees with what the table calls right."""
    got = processes["onnx.reference"](habit.proto.SerializeToString(), habit.inputs)
    assert not isinstance(got, BaseException), got
    assert same(got, habit.right), got


@pytest.mark.full
@pytest.mark.parametrize("types", kernels.MISSING)
def test_kernels(types):
    lacking = {op: set(types.split()) for op in kernels.MISSING[types].split()}
    for since, added in kernels.ADDED.items():
        if Version(version("onnxruntime")) < Version(since):
            for op in lacking.keys() & added:
                lacking[op] |= set(added[op].split())
    assert {op: set(kernels.missing(op).split()) for op in lacking} == lacking


def same(got: Arrays, wanted: Arrays) -> bool:
    """Equal, of float32 up to the rounding of a runtime's own polynomials."""
    return len(got) == len(wanted) and all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.allclose(a, b, ROUNDING if a.dtype == np.float32 else 0, 0, equal_nan=True)
        for a, b in zip(got, wanted, strict=True)
    )
