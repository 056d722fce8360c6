"""Files that many workers put into their places, of whom some die."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from zoo.common.staging import writing

STAGED = ".staged-"
"""How files begin that are not in their place yet."""


@contextmanager
def placing(path: Path, folder: Path) -> Generator[Path]:
    """Where to write a file in a folder of work, which takes its place once the block is through.

    Many workers do this at once, on one folder, and some of them die: what they leave goes when the
    work is begun again, or is done. **Raises** `BadOutput`.
    """
    stage = folder / f"{STAGED}{secrets.token_hex(8)}{path.suffix}"
    with writing(path):
        try:
            yield stage
            stage.replace(path)
        finally:
            stage.unlink(missing_ok=True)
