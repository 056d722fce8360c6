"""Format Markdown tables, and update the generated parts of pages."""

import re
from collections.abc import Iterable, Iterator, Sequence


def number(value: float | None, form: str) -> str:
    """Return a formatted number, or an empty string for None."""
    return "" if value is None else f"{value:{form}}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Iterator[str]:
    """Yield the lines of a Markdown table, and an empty line.

    `words` is the number of columns, from the left, that contain text. The other columns are
    aligned to the right.
    """
    yield "| " + " | ".join(headings) + " |"
    yield "|---" * words + "|---:" * (len(headings) - words) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def with_part(page: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with the text between the markers of a part replaced by these lines.

    The part begins with `<!-- NAME: written by PROGRAM -->` and ends with `<!-- end -->` or `<!--
    end of NAME -->`.
    """
    text = "\n".join(map(str.rstrip, "\n".join(lines).strip().splitlines()))
    marks = rf"(<!-- {name}: written by \S+ -->).*?(<!-- end(?: of {name})? -->)"
    return re.sub(marks, lambda match: f"{match[1]}\n\n{text}\n\n{match[2]}", page, flags=re.DOTALL)
