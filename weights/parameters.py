"""How messages call parameters: as functions have them, or as the options of a command."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

_spelled: dict[str, str] = {}
"""How the command that runs calls parameters; a program calls them as Python does."""


def parameter(name: str) -> str:
    """A parameter in a message: as the option of the command that runs, or of another one where
    that has none; as in Python where no command runs."""
    return _spelled.get(name, f"--{name.replace('_', '-')}") if _spelled else f"`{name}`"


@contextmanager
def spelled(options: Mapping[str, str]) -> Generator[None]:
    """Call parameters in messages as these options."""
    before = spellings()
    _spelled.update(options)
    try:
        yield
    finally:
        _spelled.clear()
        _spelled.update(before)


def spellings() -> dict[str, str]:
    """How parameters are called now, for a process that works for this one."""
    return dict(_spelled)
