"""Names of parameters in messages: as Python arguments, or as options of the running command."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

_option_names: dict[str, str] = {}
"""Options of the running command by parameter name. Empty if no command runs."""


def parameter(name: str) -> str:
    """Return the name of a parameter as a message has it.

    If a command runs, it is the command's option for the parameter, or `--a-name` for `a_name` if
    the command has no such option. Otherwise it is the Python name in backticks.
    """
    return _option_names.get(name, f"--{name.replace('_', '-')}") if _option_names else f"`{name}`"


@contextmanager
def use_option_names(options: Mapping[str, str]) -> Generator[None]:
    """Name parameters by these options in the messages that the block makes. `options` has the
    options by parameter name."""
    previous_names = current_option_names()
    _option_names.update(options)
    try:
        yield
    finally:
        _option_names.clear()
        _option_names.update(previous_names)


def current_option_names() -> dict[str, str]:
    """Return the options that messages name now, by parameter name. They are passed on to worker
    processes. Empty if no command runs."""
    return dict(_option_names)
