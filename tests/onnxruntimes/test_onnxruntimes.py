"""Files in other versions of ONNX Runtime, where `ONNXRUNTIMES` names a folder that has them."""

import re

import jax
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter.ir.complex_pairs import pack_complex
from converter.opsets import OLDEST_RUNTIME, is_older
from converter.targets import find_target
from tests.conformance import RUNS, TOLERANCE, inputs, results
from tests.judges.habits import TABLES
from tests.onnxruntimes import FOLDER, VERSIONS, keep, python_of, run_all
from tests.onnxruntimes.table import build
from tests.programs.table import SUBJECTS

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore:left out")]


@pytest.fixture(params=VERSIONS)
def version(request):
    if python_of(request.param) is None:
        pytest.skip(f"{FOLDER} names no folder with an environment of ONNX Runtime {request.param}")
    return request.param


def test_files_of_the_zoo(version, tmp_path):
    """As the oldest version has them that is written for, and as files are by default."""
    for target in (f"onnxruntime=={version}", "onnxruntime"):
        folder = tmp_path / re.sub(r"\W+", "-", target)
        folder.mkdir()
        opsets = build(folder, target)
        wrong = {name: text for name, text in run_all(version, folder).items() if text}
        if is_older(version, OLDEST_RUNTIME) and target == "onnxruntime":
            late = {name for name, opset in opsets.items() if int(opset) >= 23}
            assert wrong.keys() == late
        else:
            assert wrong.keys() <= {"bf16"}, wrong


def test_what_was_mended(version, tmp_path):
    """Where the tables of habits say which version mended something, the older ones do it."""
    for habits in TABLES["onnxruntime"].values():
        for habit in habits:
            since = habit.versions.removeprefix("<")
            if since and is_older(since, VERSIONS[-2]):
                stem = re.sub(r"\W+", "-", habit.name)
                onnx.save(habit.proto, tmp_path / f"{stem}.onnx")
                keep(tmp_path, stem, habit.inputs, habit.right, 1e-6)
                assert bool(run_all(version, tmp_path)[stem]) == is_older(version, since), stem


@pytest.mark.parametrize("subject", SUBJECTS)
def test_programs(subject, version, tmp_path):
    """Each program, written for a version, gives JAX's numbers there."""
    target = f"onnxruntime=={version}"
    newest = find_target(target).opsets[-1]
    for case in SUBJECTS[subject]:
        if RUNS not in case.tags:
            continue
        with jax.enable_x64(case.x64):
            given = inputs(case.specs)
            wanted = [pack_complex(np.asarray(array)) for array in results(case, given)]
            arrays = [pack_complex(np.asarray(array)) for array in given]
            kinds = {array.dtype.kind for array in (*arrays, *wanted)}
            if not kinds <= set("biuf"):  # numpy has no eight or four bits of its own
                continue
            export = case.export(min(case.opsets[-1], newest), target=target)
        stem = re.sub(r"\W+", "-", case.name)
        ir.save(export.model, tmp_path / f"{stem}.onnx")
        floats = (TOLERANCE[w.dtype.name] for w in wanted if w.dtype.kind == "f")
        keep(tmp_path, stem, arrays, wanted, max(floats, default=0) * case.tolerance)
    wrong = {name: text for name, text in run_all(version, tmp_path).items() if text}
    assert not wrong
