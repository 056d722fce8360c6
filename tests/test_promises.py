"""Pages that promise: each sentence with an absolute word names the test that holds it.

The name stands behind the sentence, as `<!-- held by test_… -->`, or behind the paragraph or row.
`<!-- by choice -->` is behind a sentence that says what is meant or wanted, which no test can show.
"""

import re
from pathlib import Path

import pytest

from tests.test_pages import PAGES, ROOT

pytestmark = pytest.mark.full

ABSOLUTE = re.compile(r"\b(never|always|nothing|anywhere)\b", re.IGNORECASE)
MARK = re.compile(r"<!-- (?:held by (?P<tests>[^>]+)|by choice) -->")
END = re.compile(r"[.?!](?=\s+[A-Z`<*]|\s*$)")
"""Where a sentence ends."""

MEASURED = {
    "converter.md",
    "weights.md",
    "zoo.md",
    "coverage.md",
    "families.md",
    "frameworks.md",
    "models.md",
    "performance.md",
    "pretrained.md",
    "runtimes.md",
}
"""Pages that commands write from what they found; tests compare them with what is found now. Those
of the reference quote docstrings."""

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


def prose(path: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def unmarked(path: Path, every: bool) -> list[str]:
    """Sentences that promise, or all of them, with nothing behind that says what holds them."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.|\|) ?)", prose(path)):
        if every and (not block.strip() or block.lstrip().startswith(("#", "|"))):
            continue
        begin = 0
        for end in [*(match.end() for match in END.finditer(block)), len(block)]:
            sentence = MARK.sub("", block[begin:end]).strip()
            promises = ABSOLUTE.search(sentence) or (every and re.search(r"\w", sentence))
            said = sentence.partition("`: ")[2] if sentence.startswith("* `--") else sentence
            row = sentence.startswith("|") and MARK.search(block)
            if promises and said not in HELP and not row and not MARK.match(block[end:].lstrip()):
                found.append(sentence)
            begin = end
    return found


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=str)
def test_every_promise_names_its_test(page):
    if page.name not in MEASURED:
        assert unmarked(page, every=page.name == "security.md") == []


def test_every_sentence_on_security():
    """The table of it has as many marks as sentences: none of them is only a pattern's miss."""
    text = (ROOT / "docs" / "security.md").read_text()
    assert len(MARK.findall(text)) > 30
    assert unmarked_without_marks(text) > 30


def unmarked_without_marks(text: str) -> int:
    """How many sentences would be found if no mark were there."""
    return sum(bool(re.search(r"\w", part)) for part in END.split(MARK.sub("", text)))


def test_tests_that_are_named_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
    named = {
        name.strip()
        for page in pages
        for match in MARK.finditer(page.read_text())
        for name in (match["tests"] or "").split(",")
    } | set(HELP.values())
    assert named - {""} <= KNOWN
