"""Files of a model hub, asked for and downloaded through huggingface-hub.

The library reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` itself, keeps files in a
cache, and tries again where a connection breaks.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from weights.containers.safetensors import INDEX, shards
from weights.errors import NotACheckpoint, Unreachable, WrongDigest
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.http_client import is_timeout, request_errors

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

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
COMMIT = re.compile("[0-9a-f]{40}")
DIGEST = re.compile("[0-9a-f]{64}")

_PARTIAL: set[tuple[Path, str]] = set()
"""Folders in which a download of this process has a partial file, and a pattern of its name."""


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

    def commit_of(self, copy: Path) -> str:
        """Return the commit of a copy in the hub's cache, which has a folder for each commit."""
        return copy.parents[len(Path(self.name).parts) - 1].name


def cached(file: HubFile) -> Path | None:
    """Return the path of a file in the hub's cache, or None. An index of shards counts only with
    all of its shards."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(file.repository, file.name, revision=file.revision)
    if not isinstance(found, str):
        return None
    path = Path(found)
    try:
        names = shards(path) if file.name.endswith(INDEX) else ()
    except NotACheckpoint:  # refused where its content is checked
        names = ()
    return path if all(path.with_name(name).exists() for name in names) else None


def cache_path(file: HubFile) -> Path:
    """Return where the hub's cache keeps a file whose revision is a commit."""
    return _cache_folder(file) / "snapshots" / file.revision / file.name


def _cache_folder(file: HubFile) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE, f"models--{file.repository.replace('/', '--')}")


def ask(file: HubFile, advice: str, listener: Progress) -> HubFile:
    """Return a file at the commit that its revision is at now, with its size and the hub's sha256.

    The hub gives no sha256 for small files. **Raises** `Unreachable`, whose message ends in
    `advice`; `WrongDigest` if another sha256 or size was recorded than the hub gives.
    """
    try:
        answer = _ask(file, listener)
    except request_errors(ValueError) as error:
        raise unreachable(file, error, advice) from error
    commit, size = answer.commit_hash or "", answer.size
    if not COMMIT.fullmatch(commit) or size is None or size < 1:
        raise Unreachable(f"{file} was not downloaded: the answer is not a hub's. {advice}")
    digest = answer.etag if DIGEST.fullmatch(answer.etag or "") else None
    if digest and file.sha256 and digest != file.sha256:
        raise WrongDigest(
            f"{file} on the hub has sha256 {digest:.12}… where {file.sha256:.12}… was recorded, "
            f"and was not downloaded. {advice}"
        )
    if file.size not in (None, size):
        raise WrongDigest(
            f"{file} on the hub has {size} bytes where {file.size} were recorded: its publisher "
            f"has to mend that; try another {parameter('revision')}."
        )
    return replace(file, revision=commit, sha256=file.sha256 or digest, size=size)


def _ask(file: HubFile, listener: Progress) -> "HfFileMetadata":
    """Ask once, or let the library ask again if a busy server wants no more than a short pause."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # our own message says what is needed
    url = hf_hub_url(file.repository, file.name, revision=file.revision)
    try:
        return get_hf_file_metadata(url, timeout=HF_HUB_DOWNLOAD_TIMEOUT)
    except HfHubHTTPError as error:
        pause = error.response.headers.get("Retry-After", "")
        is_short = re.fullmatch(r"\d{1,4}", pause, re.ASCII) and int(pause) <= LONGEST_PAUSE
        if error.response.status_code not in BUSY or not is_short:
            raise
    listener.note(f"the hub is busy and asks to wait: {file} is asked for again in {pause} s")
    return get_hf_file_metadata(url, timeout=HF_HUB_DOWNLOAD_TIMEOUT, retry_on_errors=True)


def download(file: HubFile, advice: str, listener: Progress, folder: Path | None = None) -> Path:
    """Download a file into the hub's cache, or below `folder`, and return its path.

    In a folder it is a regular file; in the cache it is a link. **Raises** `Unreachable`, whose
    message ends in `advice`.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT

    listener.stage(f"downloading {file}", file.size)
    partial = (folder or _cache_folder(file), f"*{file.sha256}.*.incomplete")

    class Bar(_Bar):
        step = staticmethod(listener.step)
        began = staticmethod(lambda: _PARTIAL.add(partial))

    try:
        path = hf_hub_download(
            file.repository,
            file.name,
            revision=file.revision,
            local_dir=folder,
            etag_timeout=HF_HUB_DOWNLOAD_TIMEOUT,
            tqdm_class=Bar,  # which has what the library calls
        )
    # A RuntimeError is one of hf-xet's.
    except request_errors(ValueError, RuntimeError) as error:
        raise unreachable(file, error, advice) from error
    finally:
        _PARTIAL.discard(partial)
    return Path(path)


class _Bar:
    """A bar of tqdm's for huggingface-hub, which forwards the bytes. One is made when this process
    has the lock of a file and has opened it."""

    step: Callable[[int], None]
    began: Callable[[], None]

    def __init__(self, **_: object) -> None:
        self.began()

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, size: float | None = 1) -> None:
        self.step(int(size or 0))

    def update_transfer(self, size: float) -> None:
        """Ignore bytes of the network, since those of the file are counted."""

    def set_postfix_str(self, *_: object, **__: object) -> None:
        pass

    set_transfer_postfix_str = set_postfix_str


def discard_partial_downloads() -> None:
    """Remove partial files that the library cannot continue: for a process about to end."""
    for folder, pattern in tuple(_PARTIAL):
        for path in folder.rglob(pattern):
            path.unlink(missing_ok=True)


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


def status_of(error: BaseException) -> int:
    """Return the HTTP status behind an error, 0 if there is none."""
    from huggingface_hub.errors import HfHubHTTPError

    answers = (cause.response for cause in _causes(error) if isinstance(cause, HfHubHTTPError))
    return next((answer.status_code for answer in answers), 0)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__
