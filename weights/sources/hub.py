"""Files of a model hub, asked for through huggingface-hub.

The library reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` itself.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from weights.errors import Unreachable, WrongDigest
from weights.progress import Progress
from weights.sources.http_client import is_timeout, request_errors

FORBIDDEN = (401, 403)

REASONS = {
    **dict.fromkeys(
        FORBIDDEN,
        "the hub refuses it ({code}) to who has not accepted the licence there and set HF_TOKEN "
        "to a token of that account",
    ),
    404: "the hub does not have it (404)",
    429: "the hub was asked too often (429), so wait for some minutes",
}
"""What an HTTP status means for who wants a file."""

BUSY = (429, 503)
LONGEST_PAUSE = 300  # seconds that are waited because a server asks for it
ATTEMPTS = 4  # how often in a row a server may be busy, or a connection break without a new byte
COMMIT = re.compile("[0-9a-f]{40}")
DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class HubFile:
    """A file in a repository, at a revision, with its sha256 and size where they are known."""

    repository: str
    name: str
    revision: str = "main"
    sha256: str | None = None
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.repository}/{self.name}"

    @property
    def owner(self) -> str:
        """Owner of the repository."""
        return self.repository.partition("/")[0]


def cached(file: HubFile) -> Path | None:
    """Where an earlier download lies that some program made with the library."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(file.repository, file.name, revision=file.revision)
    return Path(path) if isinstance(path, str) else None


def ask(file: HubFile, advice: str, listener: Progress) -> HubFile:
    """The file at the commit that its revision is at now, with its size and the hub's sha256.

    The hub gives no sha256 for small files. **Raises** `Unreachable`, whose message ends in
    `advice`; `WrongDigest` if another sha256 was recorded than the hub gives.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # our own message says what is needed
    url = hf_hub_url(file.repository, file.name, revision=file.revision)
    for attempt in count(1):
        try:
            answer = get_hf_file_metadata(url, timeout=HF_HUB_DOWNLOAD_TIMEOUT)
            break
        except request_errors(ValueError) as error:
            _, pause = answer_of(error)
            if pause is None or attempt == ATTEMPTS:
                raise unreachable(file, error, advice) from error
            wait_as_asked(file, pause, listener)
    commit, size = answer.commit_hash or "", answer.size
    if not COMMIT.fullmatch(commit) or size is None or size < 1:
        raise Unreachable(f"{file} was not downloaded: the answer is not a hub's. {advice}")
    digest = answer.etag if DIGEST.fullmatch(answer.etag or "") else None
    if digest and file.sha256 and digest != file.sha256:
        raise WrongDigest(
            f"{file} on the hub has sha256 {digest:.12}… where {file.sha256:.12}… was recorded, "
            f"and was not downloaded. {advice}"
        )
    return replace(file, revision=commit, sha256=file.sha256 or digest, size=size)


def wait_as_asked(file: HubFile, pause: int, listener: Progress) -> None:
    """Leave a busy server alone for as many seconds as it asks, and say so."""
    listener.note(f"the hub is busy and asks to wait: {file} is asked for again in {pause} s")
    time.sleep(pause)


def unreachable(file: HubFile, error: Exception, advice: str) -> Unreachable:
    """Error to raise where a download failed."""
    return Unreachable(f"{file} was not downloaded: {reason(error)}. {advice}")


def reason(error: BaseException) -> str:
    """Cause of a failure, in a few words. The library hides the answer behind errors of its own."""
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError

    for cause in _causes(error):
        if isinstance(cause, RevisionNotFoundError):
            return "the hub has the repository, but not that revision of it (404)"
        if isinstance(cause, HfHubHTTPError):
            code = cause.response.status_code
            other = "the hub answered with an error ({code}), so try later"
            return REASONS.get(code, other).format(code=code)
        if isinstance(cause, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE forbids it"
        if is_timeout(cause):
            return (
                f"the hub did not answer in time, so try later, or wait longer than the "
                f"{HF_HUB_DOWNLOAD_TIMEOUT} s of HF_HUB_DOWNLOAD_TIMEOUT"
            )
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
    return f"the hub cannot be reached ({type(error).__name__})"


def answer_of(error: BaseException) -> tuple[int, int | None]:
    """The HTTP status behind an error, 0 if there is none, and for how many seconds a busy server
    asks to be left alone, if it says so and they are few."""
    from huggingface_hub.errors import HfHubHTTPError

    answers = (cause.response for cause in _causes(error) if isinstance(cause, HfHubHTTPError))
    if (answer := next(answers, None)) is None:
        return 0, None
    text = answer.headers.get("Retry-After", "") if answer.status_code in BUSY else ""
    few = re.fullmatch(r"\d{1,4}", text, re.ASCII) and int(text) <= LONGEST_PAUSE
    return answer.status_code, int(text) if few else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__
