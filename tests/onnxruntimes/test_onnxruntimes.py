"""Files in other versions of ONNX Runtime, in the environments of the folder `ONNXRUNTIMES`."""

import re

import jax
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter.ir.complex_pairs import pack_complex
from converter.opsets import OLDEST_RUNTIME, is_older
from converter.targets import find_target
from tests.conformance import RUNS, UNITS, inputs, results
from tests.judges.habits import TABLES
from tests.onnxruntimes import FOLDER, VERSIONS, find_python, run_all, store_case
from tests.onnxruntimes.table import build_files
from tests.programs.table import SUBJECTS

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore:left out")]


@pytest.fixture(params=VERSIONS)
def version(request):
    """A version of ONNX Runtime. The test is skipped if it has no environment."""
    if find_python(request.param) is None:
        pytest.skip(f"{FOLDER} names no folder with an environment of ONNX Runtime {request.param}")
    return request.param


def test_files_of_the_zoo(version, tmp_path):
    """Files are written for this version, and by default."""
    for target in (f"onnxruntime=={version}", "onnxruntime"):
        folder = tmp_path / re.sub(r"\W+", "-", target)
        folder.mkdir()
        opsets = build_files(folder, target)
        faults = {name: text for name, text in run_all(version, folder).items() if text}
        if is_older(version, OLDEST_RUNTIME) and target == "onnxruntime":
            unsupported = {name for name, opset in opsets.items() if int(opset) >= 23}
            assert faults.keys() == unsupported
        else:
            assert faults.keys() <= {"bf16"}, faults


def test_faults_of_older_versions(version, tmp_path):
    """Versions before the one that fixed a quirk have the fault of its minimal file."""
    for habits in TABLES["onnxruntime"].values():
        for habit in habits:
            since = habit.versions.removeprefix("<")
            if since and is_older(since, VERSIONS[-2]):
                stem = re.sub(r"\W+", "-", habit.name)
                onnx.save(habit.proto, tmp_path / f"{stem}.onnx")
                store_case(tmp_path, stem, habit.inputs, habit.right, 1e-6)
                assert bool(run_all(version, tmp_path)[stem]) == is_older(version, since), stem


@pytest.mark.parametrize("subject", SUBJECTS)
def test_programs(subject, version, tmp_path):
    """Programs that are written for a version give JAX's outputs in that version."""
    target = f"onnxruntime=={version}"
    newest = find_target(target).opsets[-1]
    for case in SUBJECTS[subject]:
        if RUNS not in case.tags:
            continue
        with jax.enable_x64(case.x64):
            operands = inputs(case.specs)
            expected = [pack_complex(np.asarray(array)) for array in results(case, operands)]
            arrays = [pack_complex(np.asarray(array)) for array in operands]
            dtype_kinds = {array.dtype.kind for array in (*arrays, *expected)}
            if not dtype_kinds <= set("biuf"):  # numpy has no dtypes of 8-bit and 4-bit floats
                continue
            export = case.export(min(case.opsets[-1], newest), target=target)
        stem = re.sub(r"\W+", "-", case.name)
        ir.save(export.model, tmp_path / f"{stem}.onnx")
        types = {array.dtype for array in expected if array.dtype.kind == "f"}
        floats = (UNITS[dtype.name] * float(np.finfo(dtype).eps) for dtype in types)
        store_case(tmp_path, stem, arrays, expected, max(floats, default=0) * case.tolerance)
    faults = {name: text for name, text in run_all(version, tmp_path).items() if text}
    assert not faults
