"""`CONTRIBUTING.md` and the pages of concepts: what they name is there, tables list every room."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from converter.opsets import TARGET_NAMES
from tests.test_boundaries import PACKAGES
from zoo.artifacts.choices import Precision
from zoo.export.precisions import PRECISIONS

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [CONTRIBUTING, *sorted(ROOT.glob("docs/concepts/*.md"))]
OTHERS = [ROOT / "README.md", *(ROOT / "docs").glob("how-to/[ce]*.md"), ROOT / "docs/security.md"]
SOURCES = ("converter", "weights", "zoo", "tests", "benchmarks")
MADE = {
    *("dist/", ".venv/bin/mypy", "onnx/", "config.json"),
    *("preprocessor_config.json", "processor_config.json", "annotations.json"),
}
"""What is there once something has made it."""


def named(page):
    """What stands in backticks outside of blocks of code, each on one line."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return sorted({" ".join(each.split()) for each in re.findall(r"`([^`]+)`", text)})


def table(package):
    """The first column of the table of a folder's rooms."""
    rows = CONTRIBUTING.read_text().partition(f"| `{package}/` | what it holds |\n|---|---|\n")[2]
    first = re.findall(r"^\|(.*?)\|", rows.partition("\n\n")[0], re.MULTILINE)
    return re.findall(r"`(\w+)/`", "".join(first))


def folders(package):
    """The folders of a package, but those that hold what Python made alone."""
    files = (path.relative_to(ROOT / package) for path in (ROOT / package).glob("*/**/*.*"))
    return {path.parts[0] for path in files if path.suffix != ".pyc"}


def is_there(path):
    """Whether a path is one from the root, or inside of a package."""
    inside = [f"{package}/**/{path}" for package in SOURCES]
    return any(any(ROOT.glob(pattern.rstrip("/"))) for pattern in (path, *inside))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.stem)
def test_files_are_there(page):
    pattern = r"[\w.*-]+(?:(?:/[\w.*-]+)+/?|/|\.(?:py|md|json|toml|cff))"
    paths = [each for each in named(page) if re.fullmatch(pattern, each)]
    assert not [path for path in paths if path not in MADE and not is_there(path)]


def test_it_is_one_page():
    assert len(CONTRIBUTING.read_text().splitlines()) <= 120


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_has_every_folder(package):
    assert sorted(table(package)) == sorted(folders(package))


def test_every_precision_has_what_the_pages_say():
    assert set(get_args(Precision)) == PRECISIONS.keys()
    page = (ROOT / "docs" / "concepts" / "precision.md").read_text()
    said = re.findall(r"^\| `(\w+)` \|[^|]*\| ([\d.]+) \|", page, re.MULTILINE)
    limits = {name: traits.limit for name, traits in PRECISIONS.items()}
    cosines = {name: each.value for name, each in limits.items() if each.measure == "cosine"}
    assert dict(said) == {name: json.dumps(value) for name, value in cosines.items()}


def test_the_page_of_targets_has_each_of_them():
    page = (ROOT / "docs" / "how-to" / "conversion.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page.partition("| target |")[2], re.MULTILINE)
    assert sorted(rows) == sorted(TARGET_NAMES)
