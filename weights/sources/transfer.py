"""A file of a hub into a place of ours, continued at the byte where it was cut.

huggingface-hub's own download keeps what it has only while the process lives.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weights.errors import Unreachable, WrongDigest
from weights.files import sha256
from weights.progress import Progress
from weights.sources.hub import HubFile, reason, status

if TYPE_CHECKING:
    from httpx2 import Response

ATTEMPTS = 4
"""How often in a row a connection may break without a new byte."""

PAUSE = 0.5
"""Seconds before the second of these attempts; the later ones wait longer."""

COMMIT = re.compile("[0-9a-f]{40}")

CONTINUED = 206
NOTHING_LEFT = 416
SERVER_ERROR = 500


def commit_of(file: HubFile, advice: str) -> str:
    """The commit that a file's revision is at this moment, if the file is there.

    **Raises** `Unreachable`, whose message ends in `advice`.
    """
    import httpx2
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # our own message says what is needed
    try:
        url = hf_hub_url(file.repository, file.name, revision=file.revision)
        commit = get_hf_file_metadata(url, timeout=HF_HUB_DOWNLOAD_TIMEOUT).commit_hash
    except (OSError, httpx2.HTTPError, ValueError) as error:
        raise _unreachable(file, error, advice) from error
    if commit is None or not COMMIT.fullmatch(commit):
        raise Unreachable(f"{file} was not downloaded: the answer is not a hub's. {advice}")
    return commit


def read(file: HubFile, limit: int, advice: str) -> bytes:
    """A small file's content. **Raises** `Unreachable`, also if it has more bytes than `limit`."""
    import httpx2

    for failures in range(1, ATTEMPTS + 1):
        try:
            return _read(file, limit, advice)
        except (OSError, httpx2.HTTPError) as error:
            if failures == ATTEMPTS or not _is_passing(error):
                raise _unreachable(file, error, advice) from error
            time.sleep(PAUSE * failures)
    raise AssertionError("the last attempt raises")


def _read(file: HubFile, limit: int, advice: str) -> bytes:
    content = bytearray()
    with _asked(file, 0) as response:
        for piece in response.iter_bytes():
            content += piece
            if len(content) > limit:
                raise Unreachable(f"{file} has more than {limit} bytes. {advice}")
    return bytes(content)


def fetch(file: HubFile, size: int, part: Path, advice: str, listener: Progress) -> None:
    """Download a file whose sha256 and size are known to `part`, after the bytes that are there.

    **Raises** `Unreachable`, and `part` stays for the next attempt; or `WrongDigest`, and it is
    removed.
    """
    import httpx2

    listener.stage(f"downloading {file}", size)
    part.parent.mkdir(parents=True, exist_ok=True)
    if not part.exists() or part.stat().st_size > size:
        part.write_bytes(b"")
    listener.step(part.stat().st_size)
    failures = 0
    while (have := part.stat().st_size) < size:
        try:
            _continue(file, size, part, listener)
        except (OSError, httpx2.HTTPError) as error:
            failures = 0 if part.stat().st_size > have else failures + 1
            if status(error) == NOTHING_LEFT:
                _check_size(have, size, part, file)
            if failures == ATTEMPTS or not _is_passing(error):
                raise _unreachable(file, error, advice) from error
            time.sleep(PAUSE * failures)
    check(part, file, listener)


def check(part: Path, file: HubFile, listener: Progress) -> None:
    """Remove a file that has not the recorded digest. **Raises** `WrongDigest`."""
    listener.stage(f"checking {file}", part.stat().st_size)
    found = sha256(part, listener.step)
    if found != file.sha256:
        part.unlink()
        raise WrongDigest(
            f"{file} from the hub has sha256 {found:.12}… where {file.sha256:.12}… was recorded, "
            "and was removed: run the command again."
        )


def _continue(file: HubFile, size: int, part: Path, listener: Progress) -> None:
    """Append what is missing, as far as the connection holds."""
    have = part.stat().st_size
    with _asked(file, have) as response:
        if response.status_code != CONTINUED:  # all of it, although a part was asked for
            listener.step(-have)
            have = 0
        offered = have + int(response.headers.get("Content-Length", size - have))
        _check_size(offered, size, part, file)
        with part.open("ab" if have else "wb") as out:
            for piece in response.iter_bytes():
                have += len(piece)
                if have > size:
                    _check_size(have, size, part, file)
                out.write(piece)
                listener.step(len(piece))


def _check_size(offered: int, size: int, part: Path, file: HubFile) -> None:
    if offered != size:
        part.unlink()
        raise WrongDigest(
            f"{file} on the hub has {offered} bytes where {size} were recorded: its publisher "
            "has to mend that; try another --revision."
        )


@contextmanager
def _asked(file: HubFile, start: int) -> Generator[Response]:
    """The answer to a request for a file, from one of its bytes on."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url = hf_hub_url(file.repository, file.name, revision=file.revision)
    # Compressed answers could not be continued.
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    timeout = HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
        hf_raise_for_status(response)
        yield response


def _is_passing(error: Exception) -> bool:
    """Whether the next attempt may well succeed."""
    import httpx2

    return isinstance(error, httpx2.TransportError) or (status(error) or 0) >= SERVER_ERROR


def _unreachable(file: HubFile, error: Exception, advice: str) -> Unreachable:
    return Unreachable(f"{file} was not downloaded: {reason(error)}. {advice}")
