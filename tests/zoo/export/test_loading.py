"""ViT-S/16 from each format through the command: the same file, quickly and in little memory."""

import json
import sys

import pytest

from tests.command import Command

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
def test_an_export_without_a_check_loads_no_more_than_it_needs(tmp_path):
    """Not what only a check, a checkpoint or a hub asks for: 290 to 300 MB, and a tenth more."""
    *lines, peak = export(tmp_path, "random", "-X", "importtime")[1].splitlines()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "jax" in imported
    assert not imported & {"onnxruntime", "torch", "huggingface_hub", "jinja2"}
    assert int(peak) < 330
