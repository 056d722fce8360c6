"""`zoo build` in many processes: on a Dask cluster that loses a worker, and beside each other."""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.command import PROGRAM, Command
from tests.zoo.artifacts.test_build import check_manifest, listed

MODELS = ("eupe_vitt16", "vit_digits")
OPTIONS = (*MODELS, "--weights", "random", "--variant", "fp32", "--variant", "int8", "--json")


@contextmanager
def running(*arguments):
    """A process for as long as the block runs."""
    process = subprocess.Popen([sys.executable, *map(str, arguments)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler and its two workers."""
    file = tmp_path / "scheduler.json"
    common = ("--scheduler-file", file, "--no-dashboard")
    with ExitStack() as stack:
        command = ("-m", "dask", "scheduler", *common, "--host", "127.0.0.1", "--port", "0")
        scheduler = stack.enter_context(running(*command))
        wait_for(lambda: file.exists() and file.read_text().endswith("}"), scheduler)
        worker = ("-m", "dask", "worker", *common, "--no-nanny", "--nthreads", "1")
        workers = [
            stack.enter_context(running(*worker, "--local-directory", tmp_path / f"worker{number}"))
            for number in range(2)
        ]
        yield json.loads(file.read_text())["address"], workers


@pytest.mark.full
def test_a_worker_is_killed(cluster, tmp_path):
    """Its build goes on at the other worker, from what was proven."""
    address, workers = cluster
    out = tmp_path / "out"
    options = (*OPTIONS, "--out", "out", "--scheduler", address)
    building = Command(tmp_path).start("build", *options)
    wait_for(lambda: all((out / model / "manifest.json").exists() for model in MODELS), building)
    workers[0].kill()
    printed, told = building.communicate(timeout=300)
    assert building.returncode == 0, told
    assert_built(json.loads(printed), out)


@pytest.mark.full
def test_two_processes(tmp_path):
    process = Command(tmp_path).start("build", *OPTIONS, "--out", "out", "--jobs", "2")
    printed, told = process.communicate(timeout=300)
    assert_built(json.loads(printed), tmp_path / "out")
    assert "eupe_vitt16: fp32, int8 built" in told


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
    check_manifest(tmp_path / "artifacts" / "dinov3_vits16")


def assert_built(records, out):
    assert [record["model"] for record in records] == list(MODELS)
    for record in records:
        assert record["error"] is None and record["manifest"]["complete"]
        assert {*record["built"], *record["already_there"]} == {"fp32", "int8"}
        folder = out / record["model"]
        check_manifest(folder)
        assert {n for n in listed(folder) if n.startswith("onnx/")} == {
            "onnx/model.onnx",
            "onnx/model_quantized.onnx",
        }
        assert not list(folder.rglob(".zoo-*")) and os.listdir(folder)
