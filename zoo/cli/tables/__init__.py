"""Results as a person reads them. Nothing is cut: not on 80 columns, not in a pipe."""

import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from weights.terminal import printable, say

UNBOUNDED = 10_000
"""Columns of a pipe."""


def console() -> Console:
    """Stdout. Texts are printed as they are."""
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if bounded else UNBOUNDED
    return Console(width=width, markup=False, emoji=False, highlight=False)


def print_table(headings: Sequence[str], rows: Iterable[Iterable[object]], title: str = "") -> None:
    """Print a table without lines. `>` marks a column of numbers, `~` one of texts that wrap."""
    shown = printable(title) or None
    made = Table(title=shown, title_justify="left", box=None, padding=(0, 2, 0, 0))
    made.pad_edge = False
    for heading in headings:
        made.add_column(
            heading.lstrip(">~"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=not heading.startswith("~"),
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(printable(str(cell)) for cell in row))
    console().print(made)


def print_lines(model: str, lines: Iterable[str | None]) -> None:
    """Print what there is to say of a model."""
    for line in filter(None, lines):
        say(f"{model}: {line}")


def counted(number: int, noun: str) -> str:
    """A number of things, in the singular where it is one."""
    return f"{number} {noun}{'s' * (number != 1)}"


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Print what is known of one thing. Addresses stay whole."""
    wrap = textwrap.TextWrapper(
        console().width, break_long_words=False, break_on_hyphens=False, subsequent_indent=" " * 17
    )
    say(title)
    for name, text in facts.items():
        say(wrap.fill(f"  {name:<15}{text}"))
