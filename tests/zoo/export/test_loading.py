"""ViT-S/16 from each format through the command: the same file, quickly and in little memory."""

import json
import sys

import pytest

from tests.command import Command
from weights.files import sha256
from zoo.cli.app import app
from zoo.cli.console import call

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


def export(folder, weights, *python):
    """The manifest, and what was told: the peak of its memory in the last line."""
    command = ("export", "dinov3_vits16", "--weights", str(weights), "--no-verify", "--json")
    program = [sys.executable, *python, "-c", MEASURED]
    process = Command(folder).start(*command, "--force", program=program)
    out, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    return json.loads(out)[0], told


@pytest.mark.full
def test_every_format_in_little_memory(vits16, tmp_path):
    """As Meta has it and as we write it for others: the same file, quickly."""
    digests, sources = set(), [vits16.path, tmp_path / "w.tar.lz4", tmp_path / "folder"]
    for path in sources[1:]:
        convert = ["weights", "convert", str(vits16.path), str(path), "--model", "dinov3_vits16"]
        assert call(app, convert) == 0
    for path in sources:
        record, told = export(tmp_path, path)
        # What transformers computes by itself is in float32.
        if record["weights"]["rope_periods"] == "file":
            file = tmp_path / "dinov3_vits16-opset23.onnx"
            digests.add(sha256(file))
        assert int(told.split()[-1]) < 700
    assert len(digests) == 1


@pytest.mark.full
def test_an_export_without_a_check_loads_no_more_than_it_needs(tmp_path):
    """Not what only a check, a checkpoint or a hub asks for: 290 to 300 MB, and a tenth more."""
    *lines, peak = export(tmp_path, "random", "-X", "importtime")[1].splitlines()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "jax" in imported
    assert not imported & {"onnxruntime", "torch", "huggingface_hub", "jinja2"}
    assert int(peak) < 330
