"""What `zoo push` is about to do, for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from zoo.hub.push import Plan


def show_plan(planned: Plan) -> None:
    """Show the files and what becomes of them."""
    target = planned.target
    total = sum(row.bytes for row in planned.rows)
    table = Table("file", "bytes", "there", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for row in planned.rows:
        table.add_row(row.name, f"{row.bytes:,}", row.change)
    table.add_row("total", f"{total:,}", "")
    console = Console()
    console.print(table)
    console.print(
        f"{target.repository}, branch {target.branch}: {planned.state}",
        highlight=False,
        soft_wrap=True,
    )
    for name in planned.others:
        console.print(f"stays as it is: {name}", highlight=False, markup=False, soft_wrap=True)
