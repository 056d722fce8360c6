"""The files that `CONTRIBUTING.md` and the pages of concepts name exist, and their tables list
every folder, precision and target."""

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
GENERATED = {
    *("dist/", ".venv/bin/mypy", "onnx/", "config.json"),
    *("preprocessor_config.json", "processor_config.json", "annotations.json"),
}
"""Files and folders that exist only after a command has written them."""


def named(page):
    """Return the texts in backticks of a page, without its blocks of code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return sorted(
        {
            " ".join(text_in_backticks.split())
            for text_in_backticks in re.findall(r"`([^`]+)`", text)
        }
    )


def table(package):
    """Return the folders in the first column of a package's table."""
    rows = CONTRIBUTING.read_text().partition(f"| `{package}/` | what it holds |\n|---|---|\n")[2]
    cells = re.findall(r"^\|(.*?)\|", rows.partition("\n\n")[0], re.MULTILINE)
    return re.findall(r"`(\w+)/`", "".join(cells))


def folders(package):
    """Return the folders of a package, without those that hold only compiled Python files."""
    paths = (path.relative_to(ROOT / package) for path in (ROOT / package).glob("*/**/*.*"))
    return {path.parts[0] for path in paths if path.suffix != ".pyc"}


def is_there(path):
    """Return whether a path exists, from the root or inside of a package."""
    patterns = [f"{package}/**/{path}" for package in SOURCES]
    return any(any(ROOT.glob(pattern.rstrip("/"))) for pattern in (path, *patterns))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.stem)
def test_files_are_there(page):
    pattern = r"[\w.*-]+(?:(?:/[\w.*-]+)+/?|/|\.(?:py|md|json|toml|cff))"
    paths = [name for name in named(page) if re.fullmatch(pattern, name)]
    assert not [path for path in paths if path not in GENERATED and not is_there(path)]


def test_contributing_is_at_most_120_lines():
    assert len(CONTRIBUTING.read_text().splitlines()) <= 120


@pytest.mark.parametrize("package", PACKAGES)
def test_the_table_of_a_package_has_every_folder(package):
    assert sorted(table(package)) == sorted(folders(package))


def test_the_page_states_the_limit_of_every_precision():
    assert set(get_args(Precision)) == PRECISIONS.keys()
    page = (ROOT / "docs" / "concepts" / "precision.md").read_text()
    stated = re.findall(r"^\| `(\w+)` \|[^|]*\| ([\d.]+) \|", page, re.MULTILINE)
    limits = {name: traits.limit for name, traits in PRECISIONS.items()}
    cosines = {name: limit.value for name, limit in limits.items() if limit.measure == "cosine"}
    assert dict(stated) == {name: json.dumps(value) for name, value in cosines.items()}


def test_the_page_lists_every_target():
    page = (ROOT / "docs" / "how-to" / "conversion.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page.partition("| target |")[2], re.MULTILINE)
    assert sorted(rows) == sorted(TARGET_NAMES)
