"""The notebooks as pages of the documentation: every cell, with the outputs that are stored.

`python -m tests.notebook_pages` writes `docs/notebooks/`.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOKS, PAGES = ROOT / "notebooks", ROOT / "docs" / "notebooks"
LINK = re.compile(r"(?<=\]\()(?:\.\./docs/([^)]+)|(\w+)\.ipynb)(?=\))")
"""To a page or a picture of the documentation, or to another notebook."""


def files() -> dict[str, bytes]:
    """Every page and its pictures, by name."""
    return {
        name: content
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for name, content in files_of(path.stem, json.loads(path.read_text())["cells"])
    }


def files_of(name: str, cells: list[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """The pictures of a notebook, then its page, on which each is called like its section."""
    parts, heading, count = (
        [f"<!-- of notebooks/{name}.ipynb, by tests/notebook_pages.py -->"],
        "",
        0,
    )
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = (re.findall(r"^#+ (.+)", text, re.MULTILINE) or [heading])[-1]
            parts.append(LINK.sub(lambda to: f"../{to[1]}" if to[1] else f"{to[2]}.md", text))
            continue
        parts.append(code(text))
        for output in cell["outputs"]:
            if "text" in output:
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/png" in output["data"]:
                picture, count = f"{name}-{count}.png", count + 1
                parts.append(f"![{heading}]({picture})")
                yield picture, b64decode("".join(output["data"]["image/png"]))
    yield f"{name}.md", ("\n\n".join(parts) + "\n").encode()


def code(text: str) -> str:
    """A cell without the line that says who runs it."""
    magic, _, rest = text.partition("\n") if text.startswith("%%") else ("", "", text)
    return f"```{'sh' if magic == '%%sh' else 'python'}\n{rest}\n```"


def write() -> None:
    """Write all, and remove what no notebook has any more."""
    made = files()
    PAGES.mkdir(exist_ok=True)
    for path in PAGES.iterdir():
        if path.name not in made:
            path.unlink()
    for name, content in made.items():
        (PAGES / name).write_bytes(content)


if __name__ == "__main__":
    write()
