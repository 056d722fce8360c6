"""Fixtures that run `zoo` commands in this process, with an empty home and working folder.

The hub is a local server of the test, or an address at which nothing answers.
"""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants

from tests.command import call_zoo
from zoo import from_pretrained

FILE = "/{repo_id}/resolve/{revision}/{filename}"
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Said:
    """The text that a command printed on stdout and stderr."""

    out: str
    err: str

    @property
    def error(self) -> str:
        """The only line of stderr that begins with `error: `."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert line.isprintable()
        return line


@dataclass(frozen=True)
class Zoo:
    """The `zoo` command, run in the folder `here` with the home folder `home`."""

    here: Path
    home: Path
    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object, code: int = 0) -> Said:
        """Run the command and return what it printed. Its exit code has to be `code`."""
        self.capsys.readouterr()
        exit_code = call_zoo(*arguments)
        printed = Said(*self.capsys.readouterr())
        assert exit_code == code, printed
        return printed

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Run the command with `--json` and return the document, the only text on stdout."""
        return json.loads(self(*arguments, "--json", code=code).out)

    def at(self, url: str, **settings: object) -> None:
        """Set the address of the hub and further constants of huggingface-hub."""
        hub_at(self.patch, url, **settings)


def hub_at(patch: pytest.MonkeyPatch, url: str, **settings: object) -> None:
    """Set the address of the hub in huggingface-hub's constants, and further constants."""
    constants_of_hub = {"ENDPOINT": url, "HUGGINGFACE_CO_URL_TEMPLATE": url + FILE}
    for name, value in (constants_of_hub | settings).items():
        patch.setattr(constants, name, value)


@pytest.fixture(scope="session")
def vit_digits():
    """The trained network `vit_digits`."""
    return from_pretrained("vit_digits")


@pytest.fixture
def zoo(tmp_path, monkeypatch, capsys) -> Zoo:
    """The `zoo` command in new folders, without variables that name caches, and without a hub."""
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ZOO_HUB", "somebody")
    for name in ("ZOO_WEIGHTS_DIR", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    command = Zoo(here, home, monkeypatch, capsys)
    command.at(NOWHERE, HF_HUB_CACHE=str(home / ".cache" / "huggingface" / "hub"))
    return command


@pytest.fixture
def at(zoo):
    """Return a function that starts a server as the command's hub. It stops after the test."""
    with ExitStack() as running:

        def start(server, **settings):
            hub = running.enter_context(server)
            zoo.at(hub.url, **settings)
            return hub

        yield start
    close_session()
