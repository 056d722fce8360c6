"""What processes leave in a folder, and what they may not take from it."""

import subprocess
import sys

import pytest

from weights.opening import open_inside
from zoo.files.staging import staged

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


LINKS = {
    "the file": lambda folder: (folder / "onnx/model.onnx").symlink_to("../other"),
    "a folder on the way": lambda folder: (folder / "onnx").symlink_to("."),
    "a FIFO's name": lambda folder: (folder / "onnx/model.onnx").symlink_to("/dev/stdin"),
}


@pytest.mark.parametrize("link", LINKS)
def test_links_inside_a_folder_are_not_followed(link, tmp_path):
    (tmp_path / "other").write_bytes(b"secret")
    (tmp_path / "model.onnx").write_bytes(b"secret")
    if "folder" not in link:
        (tmp_path / "onnx").mkdir()
    LINKS[link](tmp_path)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        open_inside(tmp_path, "onnx/model.onnx")
    around = tmp_path / "around"  # the folder itself may be reached as its owner likes
    around.symlink_to(tmp_path)
    with open_inside(around, "other") as file:
        assert file.read() == b"secret"
