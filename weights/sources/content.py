"""Whether a file is what its name says, asked when it was downloaded and before it is used.

A mirror or a proxy may give a page in place of a file, and a hub gives no digest of small files.
"""

import json
from pathlib import Path

from weights.containers import ENDINGS, OF_OTHERS, open_checkpoint
from weights.containers.safetensors import INDEX, shards
from weights.errors import NotACheckpoint, UnsafeCheckpoint, WeightsNotFound, WrongDigest
from weights.files import sha256
from weights.opening import as_utf8, read_at_most
from weights.progress import Progress
from weights.sources.hub import DIGEST, HubFile

READ = (*(each for each in ENDINGS if each not in OF_OTHERS), ".tar.lz4", ".eqx")
"""Endings of files that are opened as checkpoints."""

LARGEST_JSON = 64 << 20
SHOWN = 40
"""Bytes that a message quotes."""


def check_digest(path: Path, file: HubFile, listener: Progress, is_dry: bool = False) -> str:
    """Return the sha256 of a file, which must be the recorded one, and the one that names the file
    in the hub's cache. A file with another is removed, so that the next attempt downloads it again;
    not in a dry run. **Raises** `WrongDigest`."""
    listener.stage(f"checking {file}", path.stat().st_size)
    digest = sha256(path, listener.step)
    blob = path.resolve()
    named = blob.name if DIGEST.fullmatch(blob.name) else None
    for recorded in (file.sha256, named):
        if recorded is not None and recorded != digest:
            advice = "is to be removed: run the command without a dry run, then again"
            if not is_dry:
                path.unlink()
                blob.unlink(missing_ok=True)
                advice = "was removed: run the command again"
            raise WrongDigest(
                f"{file} from the hub has sha256 {digest:.12}… where {recorded:.12}… was recorded, "
                f"and {advice}."
            )
    return digest


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
            open_checkpoint(path).close()
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
