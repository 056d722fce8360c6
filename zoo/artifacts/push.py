"""A verified folder to a hub: every file that its manifest names, in one commit or not at all."""

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import disable_progress_bars

from weights.errors import Unreachable
from weights.opening import open_inside, read_at_most
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.http_client import request_errors
from weights.sources.hub import FORBIDDEN, describe_failure, http_status
from zoo.artifacts.folder_check import AGAIN, check_folder
from zoo.artifacts.pull import BRANCH
from zoo.artifacts.read import LARGEST_MANIFEST, parse
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile, BadRequest
from zoo.common.progress import is_terminal

TOKEN = "set HF_TOKEN to a token of yours that may write to {}"

HELD_BYTES = 8 << 20
"""Bytes of a file that is read once, for its digest and to be sent. The hub itself compares the
digest of larger ones with what arrives."""

TIMEOUT = 10.0
"""Seconds for the question what there is."""


@dataclass(frozen=True)
class PushTarget:
    """Where to: `repository` is OWNER/NAME. `private` counts only if it has to be created."""

    repository: str
    branch: str = BRANCH
    private: bool = False


@dataclass(frozen=True)
class PushedFile:
    """A file and what becomes of it in the repository."""

    name: str
    bytes: int
    sha256: str
    change: str


@dataclass(frozen=True)
class PushPlan:
    """Plan of a push. `state` says it of the repository; `others` are files it keeps."""

    folder: Path
    target: PushTarget
    model: str
    state: str
    rows: tuple[PushedFile, ...]
    others: tuple[str, ...]


def plan_push(folder: Path, target: PushTarget, progress: Progress) -> PushPlan:
    """Check a folder and compare it with the repository. **Raises** `BadFile`, `BadRequest`."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", target.repository, re.ASCII):
        raise BadRequest(f"{parameter('repo')} {target.repository}: write OWNER/NAME.")
    manifest = check_folder(folder, progress)
    progress.stage(f"asking the hub about {target.repository}")
    state, there = _look(target)
    files = (_manifest_file(folder, manifest), *manifest.listed.values())
    changes = ((file, _change(folder, file, there)) for file in files)
    rows = tuple(PushedFile(it.name, it.bytes, it.sha256, change) for it, change in changes)
    names = {file.name for file in files}
    others = tuple(name for name in there or () if name not in names)
    return PushPlan(folder, target, manifest.model, state, rows, others)


def _look(target: PushTarget) -> tuple[str, dict[str, RepoSibling] | None]:
    """What the hub has now, in words and by name; None where that is not known."""
    kind = "private" if target.private else "public"
    try:
        repository = HfApi().model_info(
            target.repository, revision=target.branch, files_metadata=True, timeout=TIMEOUT
        )
    except RevisionNotFoundError:
        return f"exists; its branch {target.branch} would be created", {}
    except RepositoryNotFoundError:
        return f"not there, or hidden from this token; would be created, {kind}", {}
    except request_errors() as error:
        return f"unknown: {describe_failure(error)}", None
    return "exists", {file.rfilename: file for file in repository.siblings or ()}


def _manifest_file(folder: Path, manifest: Manifest) -> File:
    """The file of a manifest that was read. **Raises** `BadFile` if it is another by now."""
    content = read_at_most(folder / MANIFEST, LARGEST_MANIFEST + 1)
    if parse(content, str(folder / MANIFEST)) != manifest:
        raise BadFile(f"{folder / MANIFEST} was changed while it was read: {AGAIN}.")
    return File(name=MANIFEST, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _change(folder: Path, file: File, there: dict[str, RepoSibling] | None) -> str:
    """What becomes of a file. The hub knows git's sha1 of small files, the sha256 of large ones."""
    if there is None:
        return "unknown"
    remote = there.get(file.name)
    if remote is None:
        return "new"
    if file.bytes != remote.size:
        return "changed"
    if remote.lfs is not None:
        return "same" if remote.lfs.sha256 == file.sha256 else "changed"
    content = read_at_most(folder / file.name, file.bytes)
    blob = hashlib.sha1(b"blob %d\0" % file.bytes + content, usedforsecurity=False)
    return "same" if remote.blob_id == blob.hexdigest() else "changed"


def commit(planned: PushPlan) -> str:
    """Create what is missing and upload, in one commit; gives its page.

    **Raises** `BadRequest` without a token, or `Unreachable`: the repository then holds what it
    held before.
    """
    target = planned.target
    if get_token() is None:
        raise BadRequest(f"pushing needs a token: {TOKEN.format(target.repository)}.")
    if not is_terminal(sys.stderr):
        disable_progress_bars()
    api = HfApi()
    # Older versions of the hub's library would send again what is unchanged.
    changed = [row for row in planned.rows if row.change != "same"] or planned.rows
    files = [_addition(planned.folder, row) for row in changed]
    try:
        api.create_repo(target.repository, private=target.private, exist_ok=True)
        if target.branch != BRANCH:
            api.create_branch(target.repository, branch=target.branch, exist_ok=True)
        message = f"{planned.model}: verified ONNX files"
        done = api.create_commit(
            target.repository, files, commit_message=message, revision=target.branch
        )
    # The library makes a RuntimeError of an upload that failed, a ValueError of a README.md whose
    # head the hub does not accept.
    except request_errors(RuntimeError, ValueError) as error:
        raise Unreachable(
            f"nothing was committed to {target.repository}: {_why(error, target)}. Run the command "
            "again afterwards; what arrived already is not sent twice."
        ) from error
    return done.commit_url


def _addition(folder: Path, row: PushedFile) -> CommitOperationAdd:
    """A file as it was checked. **Raises** `BadFile` if it has changed since then."""
    changed = BadFile(f"{folder / row.name} was changed since it was checked: {AGAIN}.")
    content: bytes | Path = folder / row.name
    try:
        if row.bytes <= HELD_BYTES:
            with open_inside(folder, row.name) as file:
                content = file.read()
        added = CommitOperationAdd(row.name, content)
    except (OSError, ValueError) as error:  # the library's own, of a path without a file
        raise changed from error
    if added.upload_info.sha256.hex() != row.sha256:
        raise changed
    return added


def _why(error: Exception, target: PushTarget) -> str:
    code = http_status(error)
    if code in FORBIDDEN:
        return f"the hub refuses it ({code}), so {TOKEN.format(target.repository)}"
    if not code and type(error) is ValueError:
        return " ".join(str(error).split()).rstrip(".")
    return describe_failure(error)
