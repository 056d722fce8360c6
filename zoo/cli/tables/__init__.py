"""Results as a person reads them. Nothing is cut: not on 80 columns, not in a pipe."""

import itertools
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable

from weights.printable import printable
from zoo.common.terminal import say

UNBOUNDED = 10_000
"""Columns of a pipe."""


@dataclass(frozen=True)
class Table:
    """A table without lines. `>` marks a column of numbers, `~` one of texts that wrap."""

    headings: Sequence[str]
    rows: Iterable[Iterable[object]]
    title: str = ""


@dataclass(frozen=True)
class Facts:
    """What is known of one thing, by the names of the facts."""

    title: str
    facts: Mapping[str, str]


Block: TypeAlias = str | Table | Facts
"""A part of what a command prints for people: a text of one or more lines, a table, or facts."""


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print blocks one after the other, each as soon as it comes."""
    for block in blocks:
        if isinstance(block, Table):
            print_table(block.headings, block.rows, block.title)
        elif isinstance(block, Facts):
            print_facts(block.title, block.facts)
        else:
            say(block)


def about(model: str, lines: Iterable[str | None]) -> Iterator[str]:
    """What there is to say of a model: a text for each line that is not empty."""
    return (f"{model}: {line}" for line in lines if line)


def console() -> Console:
    """Stdout. Texts are printed as they are."""
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if bounded else UNBOUNDED
    return Console(width=width, markup=False, emoji=False, highlight=False)


def print_table(headings: Sequence[str], rows: Iterable[Iterable[object]], title: str = "") -> None:
    """Print a table without lines. `>` marks a column of numbers, `~` one of texts that wrap.

    Where the console is too narrow for a first column without a mark, such as the names of models,
    each of its cells has a line of its own above the rest of its row. A title stays whole.
    """
    if title:
        say(title)
    shown = [[printable(str(cell)) for cell in row] for row in rows]
    out = console()
    below = _table(headings, [["", *row[1:]] for row in shown])
    lines = out.render_lines(below, pad=False)
    whole = headings[0].startswith((">", "~")) or _least(headings, shown) <= out.width
    if whole or len(lines) > 1 + len(shown):  # or rows take several lines all the same
        return out.print(_table(headings, shown))
    for number, line in enumerate(lines):
        row = number - 1
        if row >= 0 and (row == 0 or shown[row][0] != shown[row - 1][0]):
            say(shown[row][0])
        say("".join(segment.text for segment in line).rstrip())


def _least(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Columns of a console that a table needs: of whole lines, or of words where they wrap."""
    widths = []
    for heading, *cells in zip(headings, *rows, strict=True):
        parts = [each.split() if heading.startswith("~") else each.splitlines() for each in cells]
        widths.append(max(map(cell_len, [heading.lstrip(">~"), *itertools.chain(*parts)])))
    return sum(widths) + 2 * (len(widths) - 1)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> RichTable:
    made = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        made.add_column(
            heading.lstrip(">~"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=not heading.startswith("~"),
            overflow="fold",
        )
    for row in rows:
        made.add_row(*row)
    return made


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
