"""Print results of commands: as lines and tables for people, or as one JSON document."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from zoo.cli.console import print_json
from zoo.common.terminal import say


class Table(NamedTuple):
    """A table: `>` in front of a heading marks a column of numbers, `~` one of texts that wrap."""

    headings: Sequence[str]
    rows: Iterable[Iterable[object]]
    title: str = ""


class Facts(NamedTuple):
    """Facts about one thing, by name."""

    title: str
    facts: Mapping[str, str]


Part: TypeAlias = str | Table | Facts
"""A part of what a command prints: a line, a table, or facts."""

T = TypeVar("T")


def print_result(
    as_json: bool,
    result: T,
    parts: Callable[[T], Iterable[Part]],
    record: Callable[[T], object] = lambda result: result,
) -> None:
    """Print the result of a command on stdout.

    **Arguments:** `parts` yields what is printed for people, and `record` returns the document for
    JSON.
    """
    if as_json:
        print_json(record(result))
        return
    for part in parts(result):
        print_part(part)


def print_part(part: Part) -> None:
    """Print a line, a table or facts."""
    if isinstance(part, str):
        say(part)
        return
    from zoo.cli.printed_tables import print_facts, print_table

    if isinstance(part, Table):
        print_table(*part)
    else:
        print_facts(*part)


def lines_of(model: str, lines: Iterable[str | None]) -> Iterator[str]:
    """Yield what there is to say of a model."""
    for line in filter(None, lines):
        yield f"{model}: {line}"
