"""Downloads from a model hub, through huggingface-hub: resumed, verified, once.

The library reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weights.errors import Unreachable, WrongDigest
from weights.files import sha256
from weights.progress import Progress

FORBIDDEN = (401, 403)
MISSING = 404
TOO_MANY = 429


@dataclass(frozen=True)
class HubFile:
    """A file in a repository, at a revision, with its sha256 where that was recorded."""

    repository: str
    name: str
    revision: str = "main"
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.repository}/{self.name}"


@dataclass(frozen=True)
class Verified:
    """A file and its digest."""

    path: Path
    sha256: str


def cached(file: HubFile) -> Path | None:
    """Where an earlier download of a file lies, by whatever program."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(file.repository, file.name, revision=file.revision)
    return Path(found) if isinstance(found, str) else None


def download(file: HubFile, advice: str, listener: Progress) -> Verified:
    """Fetch a file into the hub's cache; where the connection is cut, continue.

    **Raises** `Unreachable`, whose message ends in `advice`, or `WrongDigest`.
    """
    import httpx2
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # our own message says what is needed
    try:
        # The download itself tries for half a minute before it gives a refusal away.
        get_hf_file_metadata(hf_hub_url(file.repository, file.name, revision=file.revision))
        path = hf_hub_download(
            file.repository,
            file.name,
            revision=file.revision,
            tqdm_class=_reporter(f"downloading {file}", listener),
        )
    except (OSError, httpx2.HTTPError, ValueError) as error:
        raise Unreachable(f"{file} was not downloaded: {reason(error)}. {advice}") from error
    return verify(Path(path), file.sha256)


def reason(error: BaseException) -> str:
    """What went wrong, in a few words. The library hides the answer behind errors of its own."""
    import httpx2
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError

    for cause in _causes(error):
        if isinstance(cause, RevisionNotFoundError):
            return "the hub has the repository, but not that revision of it (404)"
        if isinstance(cause, HfHubHTTPError):
            return _status(cause.response.status_code)
        if isinstance(cause, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE forbids it"
        if isinstance(cause, httpx2.TimeoutException):
            return (
                f"the hub did not answer in time, so try later, or wait longer than the "
                f"{HF_HUB_DOWNLOAD_TIMEOUT} s of HF_HUB_DOWNLOAD_TIMEOUT"
            )
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return f"{cause.strerror}"
    return f"the hub cannot be reached ({type(error).__name__})"


def status(error: BaseException) -> int | None:
    """The HTTP status behind an error, if there is one."""
    from huggingface_hub.errors import HfHubHTTPError

    answers = (cause for cause in _causes(error) if isinstance(cause, HfHubHTTPError))
    answer = next(answers, None)
    return None if answer is None else answer.response.status_code


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what it was raised from, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _status(code: int) -> str:
    if code in FORBIDDEN:
        return (
            f"the hub refuses it ({code}) to who has not accepted the licence there and set "
            "HF_TOKEN to a token of that account"
        )
    if code == MISSING:
        return "the hub does not have it (404)"
    if code == TOO_MANY:
        return "the hub was asked too often (429), so wait for some minutes"
    return f"the hub answered with an error ({code}), so try later"


def verify(path: Path, expected: str | None) -> Verified:
    """Compare a file of the hub's cache with its recorded digest, and with its name there.

    A file that is not right is removed, so that the next attempt fetches it again.

    **Raises** `WrongDigest`.
    """
    blob = path.resolve()
    # The cache names large files by their sha256, as the hub gave it.
    named = blob.name if re.fullmatch("[0-9a-f]{64}", blob.name) else None
    found = sha256(blob)
    for wanted in (expected, named):
        if wanted is not None and wanted != found:
            path.unlink()
            blob.unlink(missing_ok=True)
            raise WrongDigest(
                f"{path.name} from the hub has sha256 {found:.12}… where {wanted:.12}… was "
                "recorded, and was removed: run the command again."
            )
    return Verified(path, found)


def _reporter(text: str, listener: Progress) -> Any:
    """A class that the library takes for its progress bar."""
    from huggingface_hub.utils.tqdm import tqdm

    class Reporter(tqdm):
        def __init__(self, *args: Any, **options: Any):
            super().__init__(*args, **{**options, "disable": True})
            total = options.get("total")
            listener.stage(text, int(total) if total else None)
            listener.step(int(options.get("initial") or 0))

        def update(self, n: float | None = 1) -> bool | None:
            listener.step(int(n or 0))
            return None

    return Reporter
