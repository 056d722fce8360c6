"""Links between committed pages lead to existing pages and headings. `python docs/build.py` checks
the links of the site."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`\n]+`")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as Python-Markdown makes them from its headings."""
    headings = re.findall(r"^#+ (.+)", BLOCK.sub("", page.read_text()), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", word) for word in words}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", INLINE.sub("", BLOCK.sub("", page.read_text()))):
        if link.startswith(("https://", "http://", "mailto:")):
            assert "OWNER" not in link, link
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_page_on_tests_names_every_folder():
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests).parts[0] for path in tests.rglob("*/*.py")}
    named = set(re.findall(r"`(\w+)/`", (tests / "README.md").read_text()))
    assert folders <= named


def test_the_site_requests_nothing_from_other_hosts():
    """With `repo_url` the theme would request GitHub's data of the owner, which is a
    placeholder."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert re.search(r"^repo_|OWNER|https?://", settings, re.MULTILINE) is None
