"""Check that downloaded files have the content that their names announce.

The check runs after a download and before a cached file is used. A mirror or a proxy may return a
web page in place of a file, and hubs publish no digests of small files.
"""

import json
from pathlib import Path

from weights.containers import ENDINGS, FOREIGN_ENDINGS, open_checkpoint
from weights.containers.safetensors import INDEX, shard_names
from weights.errors import NotACheckpoint, UnsafeCheckpoint, WeightsNotFound, WrongDigest
from weights.files import sha256
from weights.opening import as_utf8, read_at_most
from weights.progress import Progress
from weights.sources.hub import DIGEST, HubFile

CHECKPOINT_ENDINGS = (
    *(ending for ending in ENDINGS if ending not in FOREIGN_ENDINGS),
    ".tar.lz4",
    ".eqx",
)
"""Endings of files that are opened as checkpoints."""

MAX_JSON_BYTES = 64 << 20
QUOTED_BYTES = 40
"""Number of bytes that a message quotes."""


def check_digest(path: Path, file: HubFile, listener: Progress, is_dry: bool = False) -> str:
    """Return the sha256 of a downloaded file, after comparing it with the recorded digests.

    These are the digest of `file`, and the digest that names the file in the hub's cache. One that
    is not known is not compared. A file with another digest is deleted, so that the next attempt
    downloads it again. In a dry run (`is_dry`) it is not deleted.

    **Raises** `WrongDigest` if the digest differs from a recorded one.
    """
    listener.stage(f"checking {file}", path.stat().st_size)
    digest = sha256(path, listener.step)
    blob = path.resolve()
    digest_in_cache = blob.name if DIGEST.fullmatch(blob.name) else None
    for recorded in (file.sha256, digest_in_cache):
        if recorded is not None and recorded != digest:
            advice = "has to be removed: run the command without a dry run, then again"
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
    """Raise `WrongDigest` if a file of a hub does not have the content that its name announces.

    **Arguments:**

    - `path`: the downloaded file. If it is an index, the files that it lists are checked too.
    - `file`: the file on the hub.
    - `is_dry`: whether a file with wrong content is kept. Otherwise it is deleted, so that the next
      attempt downloads it again.
    """
    files = [(path, file.name)]
    if file.name.endswith(INDEX) and not find_fault(path, INDEX):
        files += [(path.with_name(name), name) for name in shard_names(path)]
    for file_path, name in files:
        if file_path.exists() and (fault := find_fault(file_path, name)):
            advice = "has to be removed: run the command without a dry run, then again"
            if not is_dry:
                for faulty_path in {file_path, file_path.resolve(), path, path.resolve()}:
                    faulty_path.unlink(missing_ok=True)
                advice = "was removed: run the command again, perhaps with another HF_ENDPOINT"
            raise WrongDigest(
                f"{Path(file.repository, name)}, as the hub or its mirror gave it, {fault}, and "
                f"{advice}."
            )


def find_fault(path: Path, name: str | None = None) -> str:
    """Return a phrase that says what is wrong with the content of a file, to complete a sentence
    such as "FILE is no JSON". Return an empty text if the content is what the name announces.

    Only JSON files, indices of checkpoints, checkpoints and folders are read. Other files have no
    fault. Neither has a checkpoint whose other file is missing or that contains objects, because
    its reader reports that.

    `name` is the name of the file if it differs from that in `path`.
    """
    name = name or path.name
    try:
        if name.endswith(INDEX):
            shard_names(path)
        elif name.endswith(".json"):
            json.loads(as_utf8(read_at_most(path, MAX_JSON_BYTES)))
        elif path.is_dir() or name.endswith(CHECKPOINT_ENDINGS):
            open_checkpoint(path).close()
    except NotACheckpoint:
        return f"holds no checkpoint ({_quote_beginning(path)})"
    except (ValueError, RecursionError):
        return f"is no JSON ({_quote_beginning(path)})"
    except (WeightsNotFound, UnsafeCheckpoint):
        return ""  # a head without its backbone, or an error that the reader reports later
    return ""


def _quote_beginning(path: Path) -> str:
    """Return the size and the first bytes of a file, for a message."""
    if path.is_dir():
        return "its files are damaged"
    start = ascii(read_at_most(path, QUOTED_BYTES))[2:-1]
    return f"{path.stat().st_size} bytes that begin with {start}"
