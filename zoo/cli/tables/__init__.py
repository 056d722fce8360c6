"""Print results as text and tables. Nothing is truncated, neither in 80 columns nor in a pipe."""

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
from zoo.common.terminal import print_stdout

PIPE_WIDTH = 10_000
"""The width of a pipe in characters, which is so large that no table is wrapped."""


@dataclass(frozen=True)
class Table:
    """A table without lines.

    - `headings`: the headings of the columns. `>` at the start marks a column of numbers, `~` a
      column whose texts wrap.
    - `rows`: the cells of each row.
    - `title`: a line above the table, or an empty string.
    """

    headings: Sequence[str]
    rows: Iterable[Iterable[object]]
    title: str = ""


@dataclass(frozen=True)
class Facts:
    """Facts about one subject, to be printed one a line.

    - `title`: the line above the facts.
    - `facts`: texts by the name of the fact.
    """

    title: str
    facts: Mapping[str, str]


Block: TypeAlias = str | Table | Facts
"""A part of what a command prints for people.

It is a text of one or more lines, a table, or facts.
"""


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print texts, tables and facts to stdout, each as soon as it is available."""
    for block in blocks:
        if isinstance(block, Table):
            print_table(block.headings, block.rows, block.title)
        elif isinstance(block, Facts):
            print_facts(block.title, block.facts)
        else:
            print_stdout(block)


def prefix_lines(model: str, lines: Iterable[str | None]) -> Iterator[str]:
    """Yield `MODEL: LINE` for each line. Lines that are empty or None are skipped."""
    return (f"{model}: {line}" for line in lines if line)


def make_console() -> Console:
    """Return a console for stdout that prints text without markup.

    It is as wide as the terminal. In a pipe it is so wide that no table is wrapped.
    """
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if bounded else PIPE_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)


def print_table(headings: Sequence[str], rows: Iterable[Iterable[object]], title: str = "") -> None:
    """Print a table without lines to stdout.

    **Arguments**

    - `headings`: the headings of the columns. `>` at the start marks a column of numbers, `~` a
      column whose texts wrap.
    - `rows`: the cells of each row.
    - `title`: a line above the table, which is not wrapped.

    If the console is too narrow and the first column has no mark, such as the names of models, each
    cell of this column is printed on a line of its own above its row.
    """
    if title:
        print_stdout(title)
    printable_rows = [[printable(str(cell)) for cell in row] for row in rows]
    out = make_console()
    remaining_columns = _build_table(headings, [["", *row[1:]] for row in printable_rows])
    lines = out.render_lines(remaining_columns, pad=False)
    is_wide_enough = (
        headings[0].startswith((">", "~")) or _required_width(headings, printable_rows) <= out.width
    )
    # A row may need several lines even without its first cell. The table is then printed as it is.
    if is_wide_enough or len(lines) > 1 + len(printable_rows):
        return out.print(_build_table(headings, printable_rows))
    for number, line in enumerate(lines):
        row = number - 1
        if row >= 0 and (row == 0 or printable_rows[row][0] != printable_rows[row - 1][0]):
            print_stdout(printable_rows[row][0])
        print_stdout("".join(segment.text for segment in line).rstrip())


def _required_width(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Return the number of characters that a row of a table needs at least.

    A column that wraps needs the width of its longest word, another column that of its longest
    line.
    """
    widths = []
    for heading, *cells in zip(headings, *rows, strict=True):
        parts = [cell.split() if heading.startswith("~") else cell.splitlines() for cell in cells]
        widths.append(max(map(cell_len, [heading.lstrip(">~"), *itertools.chain(*parts)])))
    return sum(widths) + 2 * (len(widths) - 1)


def _build_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> RichTable:
    """Return a table of rich without lines.

    `>` at the start of a heading aligns its column to the right. `~` allows its texts to wrap.
    """
    table = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(
            heading.lstrip(">~"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=not heading.startswith("~"),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


def count_noun(number: int, noun: str) -> str:
    """Return a number and a noun, such as `1 file` or `3 files`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Print facts about one subject to stdout, one a line, with long texts wrapped.

    `title` is the line above. Long words such as addresses are not broken.
    """
    wrap = textwrap.TextWrapper(
        make_console().width,
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=" " * 17,
    )
    print_stdout(title)
    for name, text in facts.items():
        print_stdout(wrap.fill(f"  {name:<15}{text}"))
