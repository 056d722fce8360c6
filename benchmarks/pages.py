"""Tables in Markdown, and the parts of pages that programs write."""

import re
from collections.abc import Iterable, Iterator, Sequence


def number(value: float | None, form: str) -> str:
    """Empty where nothing was measured."""
    return "" if value is None else f"{value:{form}}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Iterator[str]:
    """Markdown; all columns but those of words to the right."""
    yield "| " + " | ".join(headings) + " |"
    yield "|---" * words + "|---:" * (len(headings) - words) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def with_part(page: str, name: str, lines: Iterable[str]) -> str:
    """A page with other lines between the marks of a part."""
    text = "\n".join(map(str.rstrip, "\n".join(lines).strip().splitlines()))
    marks = rf"(<!-- {name}: written by \S+ -->).*?(<!-- end(?: of {name})? -->)"
    return re.sub(marks, lambda found: f"{found[1]}\n\n{text}\n\n{found[2]}", page, flags=re.DOTALL)
