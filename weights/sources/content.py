"""Whether a file is what its name says, asked when it was downloaded and before it is used.

A mirror or a proxy may give a page in place of a file, and a hub gives no digest of small files.
"""

import json
from pathlib import Path

from weights.containers import ENDINGS, OF_OTHERS, open_checkpoint
from weights.containers.safetensors import INDEX, shards
from weights.errors import NotACheckpoint, UnsafeCheckpoint, WeightsNotFound, WrongDigest
from weights.opening import as_utf8, read_at_most
from weights.sources.hub import HubFile

READ = (*(each for each in ENDINGS if each not in OF_OTHERS), ".tar.lz4", ".eqx")
"""Endings of files that are opened as checkpoints."""

LARGEST_JSON = 64 << 20
SHOWN = 40
"""Bytes that a message quotes."""


def check_content(path: Path, file: HubFile, is_dry: bool = False) -> None:
    """Refuse a file of a hub that is not what its name says, and remove it, so that the next
    attempt fetches it again; not in a dry run. **Raises** `WrongDigest`."""
    names = [(path, file.name)]
    if file.name.endswith(INDEX) and not find_fault(path, INDEX):
        names += [(path.with_name(name), name) for name in shards(path)]
    for each, name in names:
        if each.exists() and (fault := find_fault(each, name)):
            advice = "is to be removed: run the command without a dry run, then again"
            if not is_dry:
                for gone in {each, each.resolve(), path, path.resolve()}:
                    gone.unlink(missing_ok=True)
                advice = "was removed: run the command again, perhaps with another HF_ENDPOINT"
            raise WrongDigest(
                f"{Path(file.repository, name)}, as the hub or its mirror gave it, {fault}, and "
                f"{advice}."
            )


def find_fault(path: Path, name: str | None = None) -> str:
    """Return what a file is not that its name says, in words that complete a sentence; empty where
    nothing is wrong."""
    name = name or path.name
    try:
        if name.endswith(INDEX):
            shards(path)
        elif name.endswith(".json"):
            json.loads(as_utf8(read_at_most(path, LARGEST_JSON)))
        elif path.is_dir() or name.endswith(READ):
            open_checkpoint(path)
    except NotACheckpoint:
        return f"holds no checkpoint ({_beginning(path)})"
    except (ValueError, RecursionError):
        return f"is no JSON ({_beginning(path)})"
    except (WeightsNotFound, UnsafeCheckpoint):
        return ""  # a head whose backbone is elsewhere, or what its reader explains
    return ""


def _beginning(path: Path) -> str:
    if path.is_dir():
        return "its files are damaged"
    start = ascii(read_at_most(path, SHOWN))[2:-1]
    return f"{path.stat().st_size} bytes that begin with {start}"
