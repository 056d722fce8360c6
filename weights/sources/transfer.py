"""A file of a hub into a place of ours, continued at the byte where it was cut.

huggingface-hub's own download keeps what it has only while the process lives.
"""

import errno
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath

from weights.containers.safetensors import INDEX, shards
from weights.errors import WrongDigest
from weights.files import sha256
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.content import check_content
from weights.sources.http_client import is_broken_connection, request_errors
from weights.sources.hub import (
    ATTEMPTS,
    DIGEST,
    HubFile,
    answer_of,
    ask,
    unreachable,
    wait_as_asked,
)

PAUSE = 0.5  # seconds before the second of these attempts; the later ones wait longer
PART = ".part"

CONTINUED = 206
NOTHING_LEFT = 416
SERVER_ERROR = 500


def download(file: HubFile, target: Path, advice: str, listener: Progress) -> str:
    """Bring a file to its place, complete or not at all, and give its sha256.

    A table of several files comes after those that it names.

    **Raises** what `fetch` raises; what there is of the file then lies hidden beside the place.
    """
    digest = fetch(file, part_of(target), advice, listener)
    check_content(part_of(target), file)
    names = shards(part_of(target)) if target.name.endswith(INDEX) else ()
    for place in (target.with_name(name) for name in names):
        name = str(PurePosixPath(file.name).with_name(place.name))
        if not place.exists():
            shard = replace(file, name=name, sha256=None, size=None)
            download(ask(shard, advice, listener), place, advice, listener)
    part_of(target).replace(target)
    return digest


def part_of(target: Path) -> Path:
    """Where a file grows before it gets its place."""
    return target.with_name(f".{target.name}{PART}")


def fetch(file: HubFile, part: Path, advice: str, listener: Progress) -> str:
    """Download a file to `part`, after the bytes that are there, and give its sha256.

    The size of the file has to be known. **Raises** `Unreachable`, and `part` stays for the next
    attempt; or `WrongDigest`, and it is removed.
    """
    size = file.size
    assert size is not None
    listener.stage(f"downloading {file}", size)
    part.parent.mkdir(parents=True, exist_ok=True)
    if part.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(part))
    if not part.exists() or part.stat().st_size > size:
        part.write_bytes(b"")
    listener.step(part.stat().st_size)
    failures = 0
    while (have := part.stat().st_size) < size:
        try:
            _continue(file, size, part, listener)
        except request_errors() as error:
            failures = 0 if part.stat().st_size > have else failures + 1
            status, pause = answer_of(error)
            if status == NOTHING_LEFT:
                _check_size(have, size, part, file)
            passing = is_broken_connection(error) or status >= SERVER_ERROR
            if failures == ATTEMPTS or (pause is None and not passing):
                raise unreachable(file, error, advice) from error
            if pause is None:
                time.sleep(PAUSE * failures)
            else:
                wait_as_asked(file, pause, listener)
    return check_digest(part, file, listener)


def check_digest(path: Path, file: HubFile, listener: Progress, is_dry: bool = False) -> str:
    """The sha256 of a file, which must be the recorded one.

    A file that is not right is removed, so that the next attempt fetches it again; not by a dry
    run.

    **Raises** `WrongDigest`.
    """
    listener.stage(f"checking {file}", path.stat().st_size)
    digest = sha256(path, listener.step)
    blob = path.resolve()
    # The hub's own library names large files by their sha256, as the hub gave it.
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


def _continue(file: HubFile, size: int, part: Path, listener: Progress) -> None:
    """Append what is missing, as far as the connection holds."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    have, timeout = part.stat().st_size, HF_HUB_DOWNLOAD_TIMEOUT
    url = hf_hub_url(file.repository, file.name, revision=file.revision)
    # Compressed answers could not be continued.
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
        hf_raise_for_status(response)
        if response.status_code != CONTINUED:  # all of it, although a part was asked for
            listener.step(-have)
            have = 0
        offered = have + int(response.headers.get("Content-Length", size - have))
        _check_size(offered, size, part, file)
        with part.open("ab" if have else "wb") as out:
            for piece in response.iter_bytes():
                have += len(piece)
                _check_size(max(have, size), size, part, file)
                out.write(piece)
                listener.step(len(piece))


def _check_size(offered: int, size: int, part: Path, file: HubFile) -> None:
    if offered != size:
        part.unlink()
        raise WrongDigest(
            f"{file} on the hub has {offered} bytes where {size} were recorded: its publisher "
            f"has to mend that; try another {parameter('revision')}."
        )
