"""`zoo build` in several processes."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.command import PROGRAM, Command
from tests.folders import listed

MODELS = ("eupe_vitt16", "vit_digits")
OPTIONS = (*MODELS, "--weights", "random", "--variant", "fp32", "--variant", "int8", "--json")


def check_manifest(folder: Path) -> None:
    """It tells the truth, whoever stopped on the way."""
    for item in json.loads((folder / "manifest.json").read_text())["files"]:
        data = (folder / item["name"]).read_bytes()
        found = len(data), hashlib.sha256(data).hexdigest()
        assert (item["bytes"], item["sha256"]) == found


def built(process, out):
    """What a build said, whose folders are whole."""
    printed, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
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
    return told


@pytest.mark.full
def test_two_processes(tmp_path):
    process = Command(tmp_path).start("build", *OPTIONS, "--out", "out", "--jobs", "2")
    assert "eupe_vitt16: fp32, int8 built" in built(process, tmp_path / "out")


@pytest.mark.full
def test_a_process_that_dies(tmp_path):
    """A build that takes its process along is tried again, and then given up in a sentence."""
    # The limit is on processor time, which ends a worker by a signal.
    code = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (6, 6)); "
    program = [*PROGRAM[:2], PROGRAM[2].replace("import sys; ", f"import sys; {code}")]
    # Of this network a build takes several times as long.
    options = ("dinov3_vits16", "--weights", "random", "--jobs", "2")
    process = Command(tmp_path).start("build", *options, program=program)
    said = "".join(process.communicate(timeout=300))
    assert process.returncode == 2 and "died 3 times" in said and "Traceback" not in said
    folder = tmp_path / "artifacts" / "dinov3_vits16"
    if (folder / "manifest.json").exists():
        check_manifest(folder)
