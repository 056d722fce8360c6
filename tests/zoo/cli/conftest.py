"""The command in this process: a home and a working folder of its own, nothing to be found."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from zoo.cli.app import app
from zoo.cli.console import call


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    out: str
    err: str


@pytest.fixture
def zoo(tmp_path, monkeypatch, capsys) -> Callable[..., Said]:
    """The command; its exit code must be `code`."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(home))
    for name in ("ZOO_WEIGHTS_DIR", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, code: int = 0) -> Said:
        capsys.readouterr()
        got = call(app, [str(argument) for argument in arguments], "zoo")
        said = Said(*capsys.readouterr())
        assert got == code, said
        return said

    return run
