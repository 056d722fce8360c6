"""Write `docs/runtimes.md`: `python -m tests.judges.habits`."""

from pathlib import Path

from tests.judges.habits.page import page

(Path(__file__).parents[3] / "docs" / "runtimes.md").write_text(page())
