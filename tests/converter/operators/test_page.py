"""`docs/exactness.md` lists the deviations that reports name."""

from pathlib import Path

from converter.fuse.attention import shifts
from converter.legalize.bounds import UNCHECKED_TEXT
from tests.converter.operators.test_planted import STAYS, TABLE

PAGE = Path(__file__).parents[3] / "docs" / "exactness.md"
SAME = "the same, and reported"


def rows() -> list[list[str]]:
    """Cells of the table of what differs by default."""
    section = PAGE.read_text().partition("## What differs by default")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_has_each_sentence_of_a_report():
    sentences = {
        UNCHECKED_TEXT,
        shifts.DEVIATION,
        *(deviation.sentence for deviation in TABLE.values()),
    }
    assert sorted(row[0] for row in rows()) == sorted(sentences)


def test_the_page_says_what_a_strict_conversion_leaves():
    stays = {TABLE[op].sentence for op in STAYS}
    assert {row[0] for row in rows() if row[3] == SAME} == stays
