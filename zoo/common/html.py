"""HTML tables for notebooks, which call `_repr_html_` to show an object."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, rows: Iterable[Sequence[object]], headings: Sequence[str] = ()) -> str:
    """Return an HTML table with a caption, in which all text is escaped.

    **Arguments**

    - `title`: the caption.
    - `rows`: the cells of each row. A cell is converted with `str`.
    - `headings`: the cells of the heading row. Without headings the table has no such row.
    """
    head = _html_row("th", headings) if headings else ""
    body = "".join(_html_row("td", row) for row in rows)
    return f"<table><caption>{escape(title)}</caption>{head}{body}</table>"


def _html_row(tag: str, cells: Sequence[object]) -> str:
    """Return a row of an HTML table, with the text of the cells escaped.

    `tag` is `th` for a row of headings or `td` for a row of data.
    """
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
