"""Whoever stops a command, whenever: the old files or the new ones, never a mixture."""

import json
from pathlib import Path

import pytest

from tests import folders
from tests.killed import STOPPED, Order

EMBEDDED = Path(__file__).parents[1] / "zoo" / "data" / "vit_digits.safetensors"

COMMANDS = {
    "export": ["export", "vit_digits", "--no-verify", "--force"],
    "convert": ["weights", "convert", str(EMBEDDED), "w.eqx", "--force"],
    "golden": ["golden", "vit_digits", "w.pth", "--force"],
    "pull": ["pull", folders.MODEL, "--out", "out", "--variant", "fp32", "--force"],
    "build": ["build", "vit_digits", "--out", ".", "--variant", "fp32"],
}

MEASURED = ("README.md", "manifest.json")

LEFT_FROM_BEFORE = b"from before"


def content(folder, hidden=False):
    """The files by name; those that are hidden, or lie in a hidden folder, are not under a name."""
    paths = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in paths.items()
        if any(part.startswith(".") for part in name.parts) == hidden
        # A build measures, and its card and manifest say how fast it was.
        and (folder / "vit_digits" not in paths[name].parents or name.name not in MEASURED)
    }


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("convert", 2),
        *(pytest.param(name, 8, marks=pytest.mark.full) for name in COMMANDS),
    ],
)
def test_a_command_that_is_stopped(name, points, run, tmp_path):
    """At so many points, in turn by each action."""
    tmp_path.joinpath("whole").mkdir()
    status, whole, *_ = run(Order(str(tmp_path / "whole"), COMMANDS[name]))
    assert status == 0 and whole > 3
    new = content(tmp_path / "whole")
    old = {} if name == "build" else dict.fromkeys(new, LEFT_FROM_BEFORE)
    for point in range(points):
        action = list(STOPPED)[point % len(STOPPED)]
        place = folders.write(tmp_path / str(point), old)
        place.mkdir(exist_ok=True)
        at = 1 + point * whole // points
        status, *_ = run(Order(str(place), COMMANDS[name], action, at))
        check(content(place), old, new)
        left = content(place, hidden=True)
        assert all(Path(file).parts[0].startswith(".") or ".zoo-" in file for file in left), left
        # What fails may be nothing that the command needs.
        assert status in (STOPPED[action], 0), (name, action, at)
        if action != "SIGKILL" and name not in ("pull", "build"):
            assert not left, (name, action, at)
        assert run(Order(str(place), COMMANDS[name]))[0] == 0
        assert content(place) == new, (name, action, at)


REPLACED = """
import signal
from pathlib import Path
from zoo.common.staging import handle_stop_signal, replace_folder, report_write_errors
from zoo.common.staging import restore_folder, staged

signal.signal(signal.SIGTERM, handle_stop_signal)
folder = Path("site")
with staged(folder.parent) as stage, report_write_errors(folder):
    restore_folder(folder)
    (stage / "new").mkdir()
    (stage / "new" / "page").write_text("new")
    replace_folder(stage / "new", folder)
"""


@pytest.mark.each()
@pytest.mark.parametrize("action", ["SIGKILL", "SIGTERM", "ENOSPC"])
def test_a_folder_that_is_replaced(action, run, tmp_path):
    """At each change: there is the older or the newer, and a killed process leaves it to the next
    one."""
    command, points = ["-c", REPLACED], 20
    for at in range(1, points):
        place = folders.write(tmp_path / str(at), {"site/page": b"old"})
        _, changes, *_ = run(Order(str(place), command, action, at))
        there = content(place)
        if action == "SIGKILL" and not there:
            assert (place / ".zoo-site.old" / "page").read_bytes() == b"old"
        else:
            assert there in ({"site/page": b"old"}, {"site/page": b"new"}), at
        assert run(Order(str(place), command))[0] == 0
        assert content(place) == {"site/page": b"new"} and not content(place, hidden=True)
        if changes < at:
            return
    raise AssertionError(f"there are more changes than {points}")


def check(found, old, new):
    """Each file is an old or a new one; with what describes them, all are of one kind."""
    for file, text in found.items():
        if not file.endswith("manifest.json"):
            assert text in (old.get(file), new.get(file)), file
        elif text == LEFT_FROM_BEFORE:
            assert set(found.values()) == {text}
        else:
            # It lists the files of variants that nobody pulled, too.
            listed = {str(Path(file).parent / item["name"]) for item in json.loads(text)["files"]}
            assert all(found.get(each) == new[each] for each in listed & set(new))


MANY = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

with ThreadPoolExecutor(8) as threads:
    list(threads.map(lambda number: Path(str(number)).touch(), range(800)))
"""


def test_threads_cannot_miss_the_change(run, tmp_path):
    """At which a command is stopped, although they change files at once."""
    for at in range(100, 800, 100):
        done = run(Order(str(tmp_path), ["-c", MANY], at=at))
        assert (done.status, done.changes) == (STOPPED["SIGKILL"], at)
