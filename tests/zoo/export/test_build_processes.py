"""`zoo build` with worker processes: complete folders, and workers that die."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.command import PROGRAM, Command
from tests.folders import listed

MODELS = ("eupe_vitt16", "vit_digits")
OPTIONS = (*MODELS, "--weights", "random", "--variant", "fp32", "--variant", "int8", "--json")


def check_manifest(folder: Path) -> None:
    """Check that the files of a folder have the sizes and digests in its manifest."""
    for item in json.loads((folder / "manifest.json").read_text())["files"]:
        data = (folder / item["name"]).read_bytes()
        actual = len(data), hashlib.sha256(data).hexdigest()
        assert (item["bytes"], item["sha256"]) == actual


def check_build(process, out):
    """Wait for a build, check that its folders are complete, and return its stderr."""
    printed, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    records = json.loads(printed)
    assert [record["model"] for record in records] == list(MODELS)
    for record in records:
        assert record["error"] is None and record["manifest"]["complete"]
        assert {*record["built"], *record["already_there"]} == {"fp32", "int8"}
        folder = out / record["model"]
        check_manifest(folder)
        networks = {"onnx/model.onnx", "onnx/model_quantized.onnx"}
        assert {name for name in listed(folder) if name.startswith("onnx/")} == networks
        assert not list(folder.rglob(".zoo-*"))
    return stderr


@pytest.mark.full
def test_two_processes(tmp_path):
    process = Command(tmp_path).start("build", *OPTIONS, "--out", "out", "--jobs", "2")
    assert "eupe_vitt16: fp32, int8 built" in check_build(process, tmp_path / "out")


@pytest.mark.full
def test_a_killed_worker_is_replaced_three_times(tmp_path):
    """A build whose process dies is tried again, and fails in a sentence after the third time."""
    # A limit of processor time ends the worker by a signal.
    code = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (6, 6)); "
    program = [*PROGRAM[:2], PROGRAM[2].replace("import sys; ", f"import sys; {code}")]
    # A build of this network takes several times the limit.
    options = ("dinov3_vits16", "--weights", "random", "--jobs", "2")
    process = Command(tmp_path).start("build", *options, program=program)
    printed = "".join(process.communicate(timeout=300))
    assert process.returncode == 2 and "died 3 times" in printed and "Traceback" not in printed
    folder = tmp_path / "artifacts" / "dinov3_vits16"
    if (folder / "manifest.json").exists():
        check_manifest(folder)
