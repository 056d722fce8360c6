"""The page of the command line: what Typer writes, with the examples as blocks of code.

`python -m tests.commands > docs/reference/command-line.md` writes it.
"""

import html
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPER = ("-m", "typer", "zoo.cli.app", "utils", "docs", "--name", "zoo")
EXAMPLES = re.compile(r"^(Examples?):\n((?:zoo .*\n)+)", re.MULTILINE)


def page() -> str:
    """Markdown."""
    command = [sys.executable, *TYPER]
    made = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    return EXAMPLES.sub(
        lambda found: f"**{found[1]}**:\n\n```sh\n{html.unescape(found[2])}```\n",
        made.strip() + "\n",
    )


if __name__ == "__main__":
    print(page(), end="")
