"""Print results of commands: as lines and tables for people, or as one JSON document."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from zoo.cli.console import print_json
from zoo.common.terminal import say


class Table(NamedTuple):
    """A table: `>` in front of a heading marks a column of numbers, `~` one of texts that wrap."""

    headings: Sequence[str]
    rows: Iterable[Iterable[object]]
    title: str = ""


class Result(Protocol):
    """A result of a command that knows how it is printed."""

    def parts(self) -> Iterable[Table | str]:
        """Return tables and lines for people."""

    def record(self) -> object:
        """Return the document for JSON."""


def print_parts(as_json: bool, result: Result) -> None:
    """Print a result on stdout."""
    if as_json:
        print_json(result.record())
        return
    for part in result.parts():
        if isinstance(part, str):
            say(part)
        else:
            from zoo.cli.tables import print_table

            print_table(*part)
