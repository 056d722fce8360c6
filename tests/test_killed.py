"""A command is stopped at a change of its files, by a signal or a full disk. The folder then has
the old files or the new ones, never a mixture, and the next run completes."""

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

OLD_CONTENT = b"from before"


def content(folder, hidden=False):
    """Return the contents of files by name: those that are hidden or in a hidden folder if
    `hidden`, otherwise the others."""
    paths = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in paths.items()
        if any(part.startswith(".") for part in name.parts) == hidden
        # The card and the manifest of a build state measured times.
        and (folder / "vit_digits" not in paths[name].parents or name.name not in MEASURED)
    }


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("convert", 2),
        *(pytest.param(name, 8, marks=pytest.mark.full) for name in COMMANDS),
    ],
)
def test_a_stopped_command_leaves_no_mixture(name, points, run, tmp_path):
    """The command is stopped at `points` changes, spread evenly, by each action in turn."""
    tmp_path.joinpath("whole").mkdir()
    status, changes, *_ = run(Order(str(tmp_path / "whole"), COMMANDS[name]))
    assert status == 0 and changes > 3
    new = content(tmp_path / "whole")
    old = {} if name == "build" else dict.fromkeys(new, OLD_CONTENT)
    for point in range(points):
        action = list(STOPPED)[point % len(STOPPED)]
        folder = folders.write(tmp_path / str(point), old)
        folder.mkdir(exist_ok=True)
        change = 1 + point * changes // points
        status, *_ = run(Order(str(folder), COMMANDS[name], action, change))
        assert_not_mixed(content(folder), old, new)
        hidden_files = content(folder, hidden=True)
        assert all(
            Path(file).parts[0].startswith(".") or ".zoo-" in file for file in hidden_files
        ), hidden_files
        # The command may succeed without the change that failed.
        assert status in (STOPPED[action], 0), (name, action, change)
        if action != "SIGKILL" and name not in ("pull", "build"):
            assert not hidden_files, (name, action, change)
        assert run(Order(str(folder), COMMANDS[name]))[0] == 0
        assert content(folder) == new, (name, action, change)


REPLACE_FOLDER = """
import signal
from pathlib import Path
from zoo.common.staging import handle_stop_signal, replace_folder, translate_write_errors
from zoo.common.staging import restore_folder, staged

signal.signal(signal.SIGTERM, handle_stop_signal)
folder = Path("site")
with staged(folder.parent) as stage, translate_write_errors(folder):
    restore_folder(folder)
    (stage / "new").mkdir()
    (stage / "new" / "page").write_text("new")
    replace_folder(stage / "new", folder)
"""


@pytest.mark.each()
@pytest.mark.parametrize("action", ["SIGKILL", "SIGTERM", "ENOSPC"])
def test_a_stopped_replacement_of_a_folder(action, run, tmp_path):
    """Stopped at each change, the folder is the old or the new one. After a killed process the next
    one restores it."""
    command, points = ["-c", REPLACE_FOLDER], 20
    for change in range(1, points):
        folder = folders.write(tmp_path / str(change), {"site/page": b"old"})
        _, changes, *_ = run(Order(str(folder), command, action, change))
        present = content(folder)
        if action == "SIGKILL" and not present:
            assert (folder / ".zoo-site.old" / "page").read_bytes() == b"old"
        else:
            assert present in ({"site/page": b"old"}, {"site/page": b"new"}), change
        assert run(Order(str(folder), command))[0] == 0
        assert content(folder) == {"site/page": b"new"} and not content(folder, hidden=True)
        if changes < change:
            return
    raise AssertionError(f"there are more changes than {points}")


def assert_not_mixed(present, old, new):
    """Assert that each file is an old or a new one, and that the files which a manifest lists are
    of its kind."""
    for file, text in present.items():
        if not file.endswith("manifest.json"):
            assert text in (old.get(file), new.get(file)), file
        elif text == OLD_CONTENT:
            assert set(present.values()) == {text}
        else:
            # The manifest also lists the files of variants that were not pulled.
            listed = {str(Path(file).parent / item["name"]) for item in json.loads(text)["files"]}
            assert all(
                present.get(listed_file) == new[listed_file] for listed_file in listed & set(new)
            )


MANY_CHANGES = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

with ThreadPoolExecutor(8) as threads:
    list(threads.map(lambda number: Path(str(number)).touch(), range(800)))
"""


def test_threads_cannot_miss_the_change(run, tmp_path):
    """A command is stopped at the chosen change even if several threads change files at once."""
    for change in range(100, 800, 100):
        outcome = run(Order(str(tmp_path), ["-c", MANY_CHANGES], at=change))
        assert (outcome.status, outcome.changes) == (STOPPED["SIGKILL"], change)
