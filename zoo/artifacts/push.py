"""Upload a verified folder to a hub (`zoo push`): all files of its manifest, in one commit or not
at all."""

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
from zoo.artifacts.folder_check import REBUILD_ADVICE, check_folder
from zoo.artifacts.pull import DEFAULT_BRANCH
from zoo.artifacts.read import MAX_MANIFEST_BYTES, parse_manifest
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile, BadRequest
from zoo.common.progress import is_terminal

TOKEN_ADVICE = "set HF_TOKEN to a token of yours that may write to {}"

MAX_BYTES_IN_MEMORY = 8 << 20
"""The largest file that is read once, for its digest and for the upload.

For larger files the hub compares the digest with the bytes that arrive.
"""

TIMEOUT = 10.0
"""Seconds to wait for the list of files in the repository."""


@dataclass(frozen=True)
class PushTarget:
    """The repository (`OWNER/NAME`) and branch on the hub to which files are uploaded.

    `private` is used only if the repository has to be created.
    """

    repository: str
    branch: str = DEFAULT_BRANCH
    private: bool = False


@dataclass(frozen=True)
class PushedFile:
    """A file to upload, with its size and digest.

    `change` says how it differs from the file in the repository: `new`, `changed`, `same` or
    `unknown`.
    """

    name: str
    bytes: int
    sha256: str
    change: str


@dataclass(frozen=True)
class PushPlan:
    """The plan of an upload.

    - `folder`: the folder with the files.
    - `target`: the repository and branch.
    - `model`: the name of the model.
    - `state`: the state of the repository, in words.
    - `rows`: the files of the folder, with their changes.
    - `others`: the names of other files in the repository, which are kept.
    """

    folder: Path
    target: PushTarget
    model: str
    state: str
    rows: tuple[PushedFile, ...]
    others: tuple[str, ...]


def plan_push(folder: Path, target: PushTarget, progress: Progress) -> PushPlan:
    """Check a built folder, compare it with the repository on the hub, and return the plan.

    Nothing is uploaded. **Raises** `BadFile` if the folder is not complete and verified, and
    `BadRequest` for an invalid repository name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", target.repository, re.ASCII):
        raise BadRequest(f"{parameter('repo')} {target.repository}: write OWNER/NAME.")
    manifest = check_folder(folder, progress)
    progress.stage(f"asking the hub about {target.repository}")
    state, remote_files = _read_repository(target)
    files = (_manifest_file(folder, manifest), *manifest.files_by_name.values())
    changes = ((file, _compare_with_hub(folder, file, remote_files)) for file in files)
    rows = tuple(PushedFile(file.name, file.bytes, file.sha256, change) for file, change in changes)
    names = {file.name for file in files}
    others = tuple(name for name in remote_files or () if name not in names)
    return PushPlan(folder, target, manifest.model, state, rows, others)


def _read_repository(target: PushTarget) -> tuple[str, dict[str, RepoSibling] | None]:
    """Return the state of a repository in words, and its files by name.

    The files are None if the hub could not be asked. They are empty if the repository or the branch
    does not exist.
    """
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
    """Return the name, size and digest of the manifest in a folder.

    **Raises** `BadFile` if the manifest differs from `manifest`, which was read before.
    """
    content = read_at_most(folder / MANIFEST, MAX_MANIFEST_BYTES + 1)
    if parse_manifest(content, str(folder / MANIFEST)) != manifest:
        raise BadFile(f"{folder / MANIFEST} was changed while it was read: {REBUILD_ADVICE}.")
    return File(name=MANIFEST, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _compare_with_hub(folder: Path, file: File, remote_files: dict[str, RepoSibling] | None) -> str:
    """Return how a local file differs from the repository: `new`, `changed`, `same` or `unknown`.

    It is `unknown` only if `remote_files` is None. `remote_files` are the files in the repository
    by name. The hub records git's sha1 of small files and the sha256 of large ones.
    """
    if remote_files is None:
        return "unknown"
    remote = remote_files.get(file.name)
    if remote is None:
        return "new"
    if file.bytes != remote.size:
        return "changed"
    if remote.lfs is not None:
        return "same" if remote.lfs.sha256 == file.sha256 else "changed"
    content = read_at_most(folder / file.name, file.bytes)
    blob = hashlib.sha1(b"blob %d\0" % file.bytes + content, usedforsecurity=False)
    return "same" if remote.blob_id == blob.hexdigest() else "changed"


def commit_push(push_plan: PushPlan) -> str:
    """Upload the changed files of a plan in one commit, and return the address of its page.

    Files whose change is `unknown` are uploaded too. If all files are the same, all are passed to
    the hub again. The repository and the branch are created if they do not exist.

    **Raises** `BadRequest` without a token, `BadFile` if a file has changed since it was checked,
    and `Unreachable` if the upload fails. No file in the repository is changed then.
    """
    target = push_plan.target
    if get_token() is None:
        raise BadRequest(f"pushing needs a token: {TOKEN_ADVICE.format(target.repository)}.")
    if not is_terminal(sys.stderr):
        disable_progress_bars()
    api = HfApi()
    # Older versions of huggingface-hub would upload unchanged files again.
    changed = [row for row in push_plan.rows if row.change != "same"] or push_plan.rows
    files = [_to_commit_operation(push_plan.folder, row) for row in changed]
    try:
        api.create_repo(target.repository, private=target.private, exist_ok=True)
        if target.branch != DEFAULT_BRANCH:
            api.create_branch(target.repository, branch=target.branch, exist_ok=True)
        message = f"{push_plan.model}: verified ONNX files"
        commit_info = api.create_commit(
            target.repository, files, commit_message=message, revision=target.branch
        )
    # huggingface-hub raises RuntimeError if an upload fails, and ValueError if the hub does not
    # accept the metadata of README.md.
    except request_errors(RuntimeError, ValueError) as error:
        raise Unreachable(
            f"nothing was committed to {target.repository}: {_describe_error(error, target)}. Run "
            "the command again afterwards; what arrived already is not sent twice."
        ) from error
    return commit_info.commit_url


def _to_commit_operation(folder: Path, row: PushedFile) -> CommitOperationAdd:
    """Return the operation that uploads a file.

    **Raises** `BadFile` if the file has changed since it was checked.
    """
    changed_error = BadFile(
        f"{folder / row.name} was changed since it was checked: {REBUILD_ADVICE}."
    )
    content: bytes | Path = folder / row.name
    try:
        if row.bytes <= MAX_BYTES_IN_MEMORY:
            with open_inside(folder, row.name) as file:
                content = file.read()
        operation = CommitOperationAdd(row.name, content)
    except (OSError, ValueError) as error:  # huggingface-hub raises ValueError for a missing file
        raise changed_error from error
    if operation.upload_info.sha256.hex() != row.sha256:
        raise changed_error
    return operation


def _describe_error(error: Exception, target: PushTarget) -> str:
    """Return the reason why an upload to `target` failed, in words."""
    code = http_status(error)
    if code in FORBIDDEN:
        return f"the hub refuses it ({code}), so {TOKEN_ADVICE.format(target.repository)}"
    if not code and type(error) is ValueError:
        return " ".join(str(error).split()).rstrip(".")
    return describe_failure(error)
