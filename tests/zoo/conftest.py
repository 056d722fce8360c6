"""The command in this process: a home and a working folder of its own, and a test's own hub."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants

from zoo.cli.app import app
from zoo.cli.console import run_command

FILE = "/{repo_id}/resolve/{revision}/{filename}"
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    out: str
    err: str

    @property
    def error(self) -> str:
        """The one sentence of an error, below what was said of the progress."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert line.isprintable()
        return line


@dataclass(frozen=True)
class Zoo:
    """The command, which works in the folder `here`."""

    here: Path
    home: Path
    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object, code: int = 0) -> Said:
        """What it printed; its exit code must be `code`."""
        self.capsys.readouterr()
        got = run_command(app, [str(argument) for argument in arguments], "zoo")
        said = Said(*self.capsys.readouterr())
        assert got == code, said
        return said

    def json(self, *arguments: object, code: int = 0) -> Any:
        """The document that it prints, and nothing beside it."""
        return json.loads(self(*arguments, "--json", code=code).out)

    def at(self, url: str, **settings: object) -> None:
        """From here on the hub is there; `settings` are constants of huggingface-hub."""
        hub_at(self.patch, url, **settings)


def hub_at(patch: pytest.MonkeyPatch, url: str, **settings: object) -> None:
    """Tell huggingface-hub where the hub is, and other constants of its."""
    places = {"ENDPOINT": url, "HUGGINGFACE_CO_URL_TEMPLATE": url + FILE}
    for name, value in (places | settings).items():
        patch.setattr(constants, name, value)


@pytest.fixture
def zoo(tmp_path, monkeypatch, capsys) -> Zoo:
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
    """Runs a server for as long as the test runs, which is the command's hub."""
    with ExitStack() as running:

        def start(server, **settings):
            hub = running.enter_context(server)
            zoo.at(hub.url, **settings)
            return hub

        yield start
    close_session()
