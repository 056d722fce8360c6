"""Locks of files and folders: one process holds a lock, and lock files are removed."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from unittest.mock import Mock

from tests.killed import Order
from weights.lock import hold_lock
from weights.progress import Quiet

PYTHON = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
PROCESSES, ROUNDS = 4, 80

# A counter that loses numbers if two processes change it at once.
COUNTING_PROGRAM = """
import sys, time
from pathlib import Path
from weights.lock import hold_lock
from weights.progress import Quiet
counter = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with hold_lock(Path(sys.argv[3]), Quiet()):
        number = int(counter.read_text())
        time.sleep(0)
        counter.write_text(str(number + 1))
"""


def test_one_process_at_a_time_holds_a_lock(tmp_path):
    """The lock file is removed and created again at every turn."""
    target = tmp_path / "place"
    target.touch()
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNTING_PROGRAM, str(counter), str(ROUNDS), str(target)]
    processes = [subprocess.Popen(command, env=PYTHON) for _ in range(PROCESSES)]
    assert [process.wait(timeout=120) for process in processes] == [0] * PROCESSES
    assert counter.read_text() == str(PROCESSES * ROUNDS)
    assert {path.name for path in tmp_path.iterdir()} == {"place", "counter"}


def test_waiting_is_reported(tmp_path):
    target, stages, order = tmp_path / "new" / "place", Queue(), []

    def hold_second():
        with hold_lock(target, Mock(Quiet, stage=stages.put)):
            order.append("second")

    with hold_lock(target, Quiet()):
        thread = threading.Thread(target=hold_second)
        thread.start()
        assert stages.get(timeout=30) == f"waiting for another process that writes {target}"
        order.append("first")
    thread.join(timeout=30)
    assert order == ["first", "second"] and stages.empty()
    assert list((tmp_path / "new").iterdir()) == []


def test_names_of_one_folder_have_one_lock(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path / "folder")
    for name in (Path(), tmp_path / "link", tmp_path / "folder", Path("../folder")):
        with hold_lock(name, Quiet()):
            assert {path.name for path in tmp_path.iterdir()} == {"folder", "link", ".folder.lock"}


MOUNTED_PROGRAM = """
import os, sys
from pathlib import Path
from weights.lock import hold_lock
from weights.progress import Quiet
with hold_lock(Path("folder"), Quiet()):
    assert (os.listdir("folder"), os.listdir(".")) == ([".folder.lock"], ["folder"])
assert os.listdir("folder") == []
try:
    with hold_lock(Path("other"), Quiet()):
        pass
except PermissionError:
    sys.exit(7)
"""


def test_the_lock_of_a_folder_in_a_read_only_folder(run, tmp_path):
    """The folder may be a mounted volume. A new path in the read-only folder is refused."""
    (tmp_path / "folder").mkdir()
    tmp_path.chmod(0o555)
    status, *_ = run(Order(str(tmp_path), ["-c", MOUNTED_PROGRAM]))
    tmp_path.chmod(0o755)
    assert status == 7


def test_a_file_with_the_name_of_a_lock_is_kept(tmp_path):
    """The file is kept if it is not empty, as lock files are."""
    for content in (b"mine", b""):
        path = tmp_path / ".place.lock"
        path.write_bytes(content)
        with hold_lock(tmp_path / "place", Quiet()):
            assert path.read_bytes() == content
        assert path.exists() == bool(content)
