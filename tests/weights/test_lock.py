"""One process at a time, and nothing left behind."""

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

# A counter that loses numbers where two work on it at once.
COUNT = """
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


def test_many_processes_race(tmp_path):
    """The lock file is removed and made anew all the time, and still there is one at a time."""
    place = tmp_path / "place"
    place.touch()
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNT, str(counter), str(ROUNDS), str(place)]
    processes = [subprocess.Popen(command, env=PYTHON) for _ in range(PROCESSES)]
    assert [process.wait(timeout=120) for process in processes] == [0] * PROCESSES
    assert counter.read_text() == str(PROCESSES * ROUNDS)
    assert {path.name for path in tmp_path.iterdir()} == {"place", "counter"}


def test_who_waits_says_so(tmp_path):
    place, told, order = tmp_path / "new" / "place", Queue(), []

    def second():
        with hold_lock(place, Mock(Quiet, stage=told.put)):
            order.append("second")

    with hold_lock(place, Quiet()):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.get(timeout=30) == f"waiting for another process that writes {place}"
        order.append("first")
    thread.join(timeout=30)
    assert order == ["first", "second"] and told.empty()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_folder_by_any_name(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path / "folder")
    for name in (Path(), tmp_path / "link", tmp_path / "folder", Path("../folder")):
        with hold_lock(name, Quiet()):
            assert {path.name for path in tmp_path.iterdir()} == {"folder", "link", ".folder.lock"}


MOUNTED = """
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


def test_a_folder_in_one_that_cannot_be_written(run, tmp_path):
    """As a volume that is mounted; a new place there is refused."""
    (tmp_path / "folder").mkdir()
    tmp_path.chmod(0o555)
    status, *_ = run(Order(str(tmp_path), ["-c", MOUNTED]))
    tmp_path.chmod(0o755)
    assert status == 7


def test_a_file_that_is_called_like_a_lock_stays(tmp_path):
    """Ours are empty."""
    for content in (b"mine", b""):
        path = tmp_path / ".place.lock"
        path.write_bytes(content)
        with hold_lock(tmp_path / "place", Quiet()):
            assert path.read_bytes() == content
        assert path.exists() == bool(content)
