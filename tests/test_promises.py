"""Pages that promise: `promises.toml` names the tests that hold sentences with an absolute word.

A sentence without a test says what is meant or wanted, which no test can show. Of the page on
security every sentence is in the table.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_pages import PAGES, ROOT

pytestmark = pytest.mark.full

ABSOLUTE = re.compile(r"\b(never|always|nothing|anywhere)\b", re.IGNORECASE)
END = re.compile(r"(?<=[.?!])\s+(?=[A-Z`<*])")
"""Between two sentences."""

MEASURED = {
    "converter.md",
    "weights.md",
    "zoo.md",
    "coverage.md",
    "families.md",
    "frameworks.md",
    "models.md",
    "performance.md",
    "runtimes.md",
}
"""Pages that commands write from what they found; tests compare them with what is found now. Those
of the reference quote docstrings."""

PROMISES: dict[str, dict[str, list[str]]] = tomllib.loads(
    (ROOT / "tests" / "promises.toml").read_text(encoding="utf-8")
)

DOCUMENT = "Print the result as one JSON document, with nothing else on stdout."

HELP = {
    DOCUMENT: "test_json_says_the_same",
    "Never ask the hub; use what is on this machine.": "test_download_then_cache_then_offline",
}
"""Sentences of the help, which the page of the command line quotes."""

KNOWN = {
    name
    for path in ROOT.glob("tests/**/test_*.py")
    for name in re.findall(r"^\s*def (test_\w+)", path.read_text(), re.MULTILINE)
}


def squeezed(text: str) -> str:
    return " ".join(text.split())


def blocks(page: Path) -> list[str]:
    """Paragraphs, items and rows of a page, without its code."""
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.|\|) ?)", prose)
    return [squeezed(part) for part in parts if part.strip()]


def sentences(page: Path) -> Iterator[str]:
    """Sentences of a page, and rows of its tables as they are."""
    for block in blocks(page):
        yield from [block] if block.startswith("|") else END.split(block)


def unheld(page: Path, every: bool) -> list[str]:
    """Sentences that promise, or all of them, and are not in the table."""
    held = PROMISES.get(page.relative_to(ROOT).as_posix(), {})
    return [
        sentence
        for sentence in sentences(page)
        if ABSOLUTE.search(sentence)
        or (every and re.search(r"\w", sentence) and not sentence.startswith(("#", "|")))
        if sentence not in held and not any(sentence.endswith(known) for known in HELP)
    ]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=str)
def test_every_promise_names_its_test(page):
    if page.name not in MEASURED:
        assert unheld(page, every=page.name == "security.md") == []


def test_every_sentence_of_the_table_is_on_its_page():
    for page, held in PROMISES.items():
        assert held.keys() - {*sentences(ROOT / page)} == set()
    assert len(PROMISES["docs/security.md"]) > 30


def test_tests_that_are_named_exist():
    named = {name for held in PROMISES.values() for names in held.values() for name in names}
    assert named | {*HELP.values()} <= KNOWN
