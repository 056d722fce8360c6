"""Tables for notebooks, which ask objects for `_repr_html_`."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, rows: Iterable[Sequence[object]], headings: Sequence[str] = ()) -> str:
    """A table with a caption; everything that is in it is text."""
    head = _html_row("th", headings) if headings else ""
    body = "".join(_html_row("td", row) for row in rows)
    return f"<table><caption>{escape(title)}</caption>{head}{body}</table>"


def _html_row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
