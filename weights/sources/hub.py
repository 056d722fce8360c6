"""Request and download files of a model hub through huggingface-hub.

The library reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE`. It caches files and
retries after broken connections.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from weights.containers.safetensors import INDEX, shard_names
from weights.errors import NotACheckpoint, Unreachable, WrongDigest
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.http_client import is_timeout, request_errors

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

FORBIDDEN = (401, 403)

STATUS_REASONS = {
    **dict.fromkeys(
        FORBIDDEN,
        "the hub refuses it ({code}), so accept the licence there, and set HF_TOKEN to a token of "
        "that account",
    ),
    404: "the hub does not have it (404)",
    429: "the hub was asked too often (429), so wait for some minutes",
}
"""Reasons for a failed request by HTTP status."""

BUSY = (429, 503)
MAX_PAUSE_SECONDS = 300  # longest pause, in seconds, that is made at the request of a server
COMMIT = re.compile("[0-9a-f]{40}")
DIGEST = re.compile("[0-9a-f]{64}")

_PARTIAL_FILES: set[tuple[Path, str]] = set()
"""Partial files of this process's downloads: the folder, and a pattern of the file name."""


@dataclass(frozen=True)
class HubFile:
    """File in a repository of a hub.

    **Arguments:**

    - `repository`: the owner and the name of the repository, such as `facebook/dinov3-vits16`.
    - `name`: the path of the file in the repository.
    - `revision`: a branch or a commit.
    - `sha256`, `size`: the digest and the number of bytes; None if they are not known.
    """

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
        """Return the commit in the path `copy`, the path of this file in the hub's cache."""
        return copy.parents[len(Path(self.name).parts) - 1].name


def find_cached(file: HubFile) -> Path | None:
    """Return the path of a file in the hub's cache; None if it is not there. A branch stands for
    the commit that the cache records for it.

    An index counts only together with all files that it lists.
    """
    from huggingface_hub import try_to_load_from_cache

    cached_path = try_to_load_from_cache(file.repository, file.name, revision=file.revision)
    if not isinstance(cached_path, str):
        return None
    path = Path(cached_path)
    try:
        names = shard_names(path) if file.name.endswith(INDEX) else ()
    except NotACheckpoint:  # `check_content` reports it
        names = ()
    return path if all(path.with_name(name).exists() for name in names) else None


def cache_path(file: HubFile) -> Path:
    """Return the path that a file has in the hub's cache, also if it is not there. Its revision
    must be a commit."""
    return _cache_folder(file) / "snapshots" / file.revision / file.name


def _cache_folder(file: HubFile) -> Path:
    """Return the folder of a file's repository in the hub's cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE, f"models--{file.repository.replace('/', '--')}")


def resolve_file(file: HubFile, advice: str, listener: Progress) -> HubFile:
    """Ask the hub for a file. Return the file with the current commit of its revision, its size and
    its sha256.

    The hub has no sha256 of small files. The result then has the recorded one, or None if there is
    none.

    **Raises** `Unreachable`, whose message ends with `advice`, if the hub does not have the file or
    does not answer, and `WrongDigest` if a recorded sha256 or size differs from the hub's.
    """
    try:
        metadata = _request_metadata(file, listener)
    except request_errors(ValueError) as error:
        raise unreachable_error(file, error, advice) from error
    commit, size = metadata.commit_hash or "", metadata.size
    if not COMMIT.fullmatch(commit) or size is None or size < 1:
        raise Unreachable(
            f"{file} was not downloaded: the answer is not that of a model hub. {advice}"
        )
    digest = metadata.etag if DIGEST.fullmatch(metadata.etag or "") else None
    if digest and file.sha256 and digest != file.sha256:
        raise WrongDigest(
            f"{file} on the hub has sha256 {digest:.12}… where {file.sha256:.12}… was recorded, "
            f"and was not downloaded. {advice}"
        )
    if file.size not in (None, size):
        raise WrongDigest(
            f"{file} on the hub has {size} bytes where {file.size} were recorded: its publisher "
            f"has to repair it; try another {parameter('revision')}."
        )
    return replace(file, revision=commit, sha256=file.sha256 or digest, size=size)


def _request_metadata(file: HubFile, listener: Progress) -> "HfFileMetadata":
    """Return the hub's metadata of a file.

    If the hub is busy and asks for a pause of at most `MAX_PAUSE_SECONDS`, the listener is
    notified, and the request is repeated after the pause. **Raises** the error of huggingface-hub
    if the request fails.
    """
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
        is_short = re.fullmatch(r"\d{1,4}", pause, re.ASCII) and int(pause) <= MAX_PAUSE_SECONDS
        if error.response.status_code not in BUSY or not is_short:
            raise
    listener.note(f"the hub is busy and asks to wait: {file} is asked for again in {pause} s")
    return get_hf_file_metadata(url, timeout=HF_HUB_DOWNLOAD_TIMEOUT, retry_on_errors=True)


def download(file: HubFile, advice: str, listener: Progress, folder: Path | None = None) -> Path:
    """Download a file into the hub's cache, or into `folder`. Return its path.

    In a folder it is a regular file, below its path in the repository. In the cache it is a link.

    **Raises** `Unreachable`, whose message ends with `advice`, if the download fails.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT

    listener.stage(f"downloading {file}", file.size)
    partial = (folder or _cache_folder(file), f"*{file.sha256}.*.incomplete")

    class Bar(_Bar):
        step = staticmethod(listener.step)
        began = staticmethod(lambda: _PARTIAL_FILES.add(partial))

    try:
        path = hf_hub_download(
            file.repository,
            file.name,
            revision=file.revision,
            local_dir=folder,
            etag_timeout=HF_HUB_DOWNLOAD_TIMEOUT,
            tqdm_class=Bar,  # has the methods of tqdm that the library calls
        )
    # hf-xet raises RuntimeError.
    except request_errors(ValueError, RuntimeError) as error:
        raise unreachable_error(file, error, advice) from error
    finally:
        _PARTIAL_FILES.discard(partial)
    return Path(path)


class _Bar:
    """Replacement for tqdm's progress bar that forwards the number of bytes to `step`.

    huggingface-hub creates it after this process has locked and opened the partial file. Its
    creation calls `began`.
    """

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
        """Ignore the bytes that were transferred, because the bytes of the file are counted."""

    def set_postfix_str(self, *_: object, **__: object) -> None:
        pass

    set_transfer_postfix_str = set_postfix_str


def discard_partial_downloads() -> None:
    """Delete partial files that the library cannot resume. Call it before the process is killed."""
    for folder, pattern in tuple(_PARTIAL_FILES):
        for path in folder.rglob(pattern):
            path.unlink(missing_ok=True)


def unreachable_error(file: HubFile, error: Exception, advice: str) -> Unreachable:
    """Return the error to raise after `file` could not be downloaded because of `error`. The
    message says why, and ends with `advice`."""
    return Unreachable(f"{file} was not downloaded: {describe_failure(error)}. {advice}")


def describe_failure(error: BaseException) -> str:
    """Return the cause of a failed request in a few words.

    huggingface-hub wraps the error of the HTTP client in errors of its own.
    """
    from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError

    for cause in _causes(error):
        if isinstance(cause, RevisionNotFoundError):
            return "the hub has the repository, but not that revision of it (404)"
        if isinstance(cause, HfHubHTTPError):
            code = cause.response.status_code
            unknown = "the hub answered with an error ({code}), so try later"
            return STATUS_REASONS.get(code, unknown).format(code=code)
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


def http_status(error: BaseException) -> int:
    """Return the HTTP status with which a request failed; 0 if the error has no such status."""
    from huggingface_hub.errors import HfHubHTTPError

    responses = (cause.response for cause in _causes(error) if isinstance(cause, HfHubHTTPError))
    return next((response.status_code for response in responses), 0)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, the error that caused it, and so on."""
    while error is not None:
        yield error
        error = error.__cause__
