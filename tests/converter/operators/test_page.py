"""`docs/exactness.md` lists exactly the deviations that reports name."""

from pathlib import Path

from converter.fuse.attention import shifts
from converter.legalize.bounds import UNCHECKED_TEXT
from tests.converter.operators.test_planted import STAYS, TABLE

PAGE = Path(__file__).parents[3] / "docs" / "exactness.md"
SAME_IF_STRICT = "the same, and reported"


def table_rows() -> list[list[str]]:
    """Return the cells of the page's table "What differs by default"."""
    section = PAGE.read_text().partition("## What differs by default")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_page_lists_each_deviation():
    sentences = {
        UNCHECKED_TEXT,
        shifts.DEVIATION,
        *(deviation.sentence for deviation in TABLE.values()),
    }
    assert sorted(row[0] for row in table_rows()) == sorted(sentences)


def test_page_marks_deviations_of_strict_conversions():
    remaining = {TABLE[op].sentence for op in STAYS}
    assert {row[0] for row in table_rows() if row[3] == SAME_IF_STRICT} == remaining
