"""What processes leave in a folder, and what they may not take from it."""

import subprocess
import sys

import pytest

from tests import folders
from weights.opening import open_inside
from zoo.files.staging import staged

MODEL = "onnx/model.onnx"
STAGE = """
import sys, time
from pathlib import Path
from zoo.files.staging import staged
with staged(Path(sys.argv[1])) as stage:
    (stage / "half").touch()
    print(flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_staged_goes(tmp_path):
    """What a living one staged stays, and so does what is named otherwise."""
    others = [tmp_path / ".zoo-pull", tmp_path / ".zoo-mine", tmp_path / ".zoo-0123456789abcdeg"]
    for other in others:
        other.mkdir()
    command = [sys.executable, "-c", STAGE, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with staged(tmp_path):
            assert len(list(tmp_path.glob(".zoo-*"))) == len(others) + 2
        process.kill()
    assert len(list(tmp_path.glob(".zoo-*"))) == len(others) + 1
    with staged(tmp_path) as stage:
        assert sorted(tmp_path.iterdir()) == sorted([*others, stage])


@pytest.mark.parametrize(
    ("link", "to"), [(MODEL, "../other"), ("onnx", "."), (MODEL, "/dev/stdin")]
)
def test_links_inside_a_folder_are_not_followed(link, to, tmp_path):
    folders.write(tmp_path, {"other": b"secret", "model.onnx": b"secret"})
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(to)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        open_inside(tmp_path, MODEL)
    around = tmp_path / "around"  # the folder itself may be reached as its owner likes
    around.symlink_to(tmp_path)
    with open_inside(around, "other") as file:
        assert file.read() == b"secret"
