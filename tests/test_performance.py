"""The page about performance shows what was measured, failures too, and README the same."""

import json
from pathlib import Path

from benchmarks import performance

ROOT = Path(__file__).parents[1]


def test_the_page_and_readme_are_what_the_numbers_say():
    content = json.loads((ROOT / "docs" / "performance.json").read_text())
    assert (ROOT / "docs" / "performance.md").read_text() == performance.render(content)
    readme = (ROOT / "README.md").read_text()
    assert readme == performance.with_table(readme, content)
