"""Results as a person reads them. Nothing is cut: not on 80 columns, not in a pipe."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

UNBOUNDED = 10_000
"""Columns of a pipe."""


def console() -> Console:
    """Stdout."""
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if bounded else UNBOUNDED, markup=False, highlight=False)


def table(*headings: str, title: str = "") -> Table:
    """A table without lines. `>` marks a column of numbers, `~` one of texts that may wrap."""
    made = Table(
        title=Text(title) if title else None, title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    made.pad_edge = False
    for heading in headings:
        name = heading.lstrip(">~")
        wraps = heading.startswith("~")
        made.add_column(name, no_wrap=not wraps, overflow="fold")
        if heading.startswith(">"):
            made.columns[-1].justify = "right"
    return made


def print_table(rows: Table) -> None:
    """Print a table to stdout."""
    console().print(rows)


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Print what is known of one thing. Addresses stay whole."""
    wrap = textwrap.TextWrapper(
        console().width, break_long_words=False, break_on_hyphens=False, subsequent_indent=" " * 17
    )
    print(title)
    for name, text in facts.items():
        print(wrap.fill(f"  {name:<15}{text}"))
