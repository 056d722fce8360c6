"""ViT-S/16 from each format through the command: the same file, quickly and in little memory."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from weights.tensors import FLOATS, LazyArrays, LazyTensor, is_finite
from zoo.cli.app import app
from zoo.cli.console import call

MODEL = ("--model", "dinov3_vits16")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Prints the largest resident size, in MB, after the command. `getrusage` would count what this
# process had when it started the other.
MEASURED = """
import atexit, re, sys
from pathlib import Path
def tell():
    status = Path("/proc/self/status").read_text()
    print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) // 1024, file=sys.stderr)
atexit.register(tell)
from zoo.cli import main
main()
"""


def export(path, folder, *options):
    done = subprocess.run(
        [
            *(sys.executable, "-c", MEASURED, "export", "dinov3_vits16", "--weights", str(path)),
            *("--no-verify", "--json", "--out", str(folder), *options),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0], done.stderr


@pytest.mark.full
def test_every_format_in_little_memory(vits16, tmp_path):
    """ViT-S/16 as Meta has it and as we write it for others: the same file, quickly."""
    digests, sources = set(), [vits16.path]
    for name in ("w.tar.lz4", "folder"):
        assert (
            call(app, ["weights", "convert", str(vits16.path), str(tmp_path / name), *MODEL]) == 0
        )
        sources.append(tmp_path / name)
    for number, path in enumerate(sources):
        record, told = export(path, tmp_path / str(number))
        # What transformers computes by itself is in float32.
        if record["weights"]["rope_periods"] == "file":
            file = tmp_path / str(number) / "dinov3_vits16-opset23.onnx"
            digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
        assert int(told.split()[-1]) < 700
    assert len(digests) == 1


WATCHED = """
import os, sys
reads = []
def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".onnx"):
        if arguments[2] & os.O_ACCMODE == os.O_RDONLY:
            reads.append(arguments[0])
sys.addaudithook(watch)
from zoo.cli import main
try:
    main()
finally:
    assert not reads, reads
"""


@pytest.mark.full
def test_an_export_without_a_check_loads_no_more_than_it_needs(tmp_path):
    """Neither what only a check, a checkpoint or a hub asks for; nor the file that it wrote.

    It stays below 300 MB.
    """
    command = ("export", "dinov3_vits16", "--weights", "random", "--no-verify", "--out", tmp_path)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for watched, options in ((MEASURED, ("-X", "importtime")), (WATCHED, ())):
        done = subprocess.run(
            [sys.executable, *options, "-c", watched, *map(str, command), "--force"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if watched == MEASURED:
            *lines, peak = done.stderr.splitlines()
            imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
            assert "jax" in imported
            assert not imported & {"onnxruntime", "torch", "huggingface_hub", "jinja2"}
            assert int(peak) < 300


@pytest.mark.full
def test_nan_weights_are_named(vits16, tmp_path):
    state = {key: torch.from_numpy(value.copy()) for key, value in vits16.state.items()}
    state["blocks.7.mlp.fc2.bias"][5] = float("nan")
    torch.save(state, tmp_path / "w.pth")
    _, told = export(tmp_path / "w.pth", tmp_path / "out")
    assert "warning: NaN or infinite values in blocks.7.mlp.fc2.bias\n" in told


def test_sums_that_overflow_are_not_taken_for_infinite_values():
    large = np.full(100, 3e38, np.float32)
    assert is_finite(large)
    arrays = LazyArrays({"a": LazyTensor((100,), "float32", lambda: large)})
    assert arrays["a"] is large
    assert not arrays.nonfinite
    assert "float64" not in FLOATS
