"""A verified folder to a hub: every file that its manifest names, in one commit or not at all."""

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import disable_progress_bars

from weights.errors import Unreachable
from weights.files import sha256
from weights.opening import read_at_most
from weights.progress import Progress
from weights.sources.hub import FORBIDDEN, reason, status
from zoo.artifacts.audit.listed import check_folder
from zoo.errors import BadRequest
from zoo.hub.pull import BRANCH
from zoo.manifest.schema import MANIFEST
from zoo.progress import is_terminal

TOKEN = "set HF_TOKEN to a token of yours that may write to {}"

TIMEOUT = 10.0
"""Seconds for the question what there is."""


@dataclass(frozen=True)
class Target:
    """Where to: `repository` is OWNER/NAME. `private` counts only if it has to be created."""

    repository: str
    branch: str = BRANCH
    private: bool = False


@dataclass(frozen=True)
class PushedFile:
    """A file and what becomes of it in the repository."""

    name: str
    bytes: int
    change: str


@dataclass(frozen=True)
class PushPlan:
    """What a push would do. `state` says it of the repository; `others` are files it keeps."""

    folder: Path
    target: Target
    model: str
    state: str
    rows: tuple[PushedFile, ...]
    others: tuple[str, ...]


def plan_push(folder: Path, target: Target, progress: Progress) -> PushPlan:
    """Check a folder and compare it with the repository.

    **Raises** `BadFile` if the folder is not verified, whole and nothing else, `BadRequest`.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", target.repository, re.ASCII):
        raise BadRequest(f"--repo {target.repository}: write OWNER/NAME.")
    manifest = check_folder(folder, progress)
    progress.stage(f"asking the hub about {target.repository}")
    state, there = _look(target)
    names = [MANIFEST, *manifest.listed]
    return PushPlan(
        folder,
        target,
        manifest.model,
        state,
        tuple(_row(folder, name, there) for name in names),
        tuple(name for name in there or () if name not in names),
    )


def _look(target: Target) -> tuple[str, dict[str, RepoSibling] | None]:
    """What the hub has now, in words and by name; None where that is not known."""
    kind = "private" if target.private else "public"
    try:
        found = HfApi().model_info(
            target.repository, revision=target.branch, files_metadata=True, timeout=TIMEOUT
        )
    except RevisionNotFoundError:
        return f"exists; its branch {target.branch} would be created", {}
    except RepositoryNotFoundError:
        return f"not there, or hidden from this token; would be created, {kind}", {}
    except (OSError, httpx2.HTTPError) as error:
        return f"unknown: {reason(error)}", None
    return "exists", {file.rfilename: file for file in found.siblings or ()}


def _row(folder: Path, name: str, there: dict[str, RepoSibling] | None) -> PushedFile:
    path = folder / name
    if there is None:
        change = "unknown"
    elif name not in there:
        change = "new"
    else:
        change = "same" if _is_same(path, there[name]) else "changed"
    return PushedFile(name, path.stat().st_size, change)


def _is_same(path: Path, there: RepoSibling) -> bool:
    """The hub knows the sha256 of large files and git's sha1 of small ones."""
    size = path.stat().st_size
    if size != there.size:
        return False
    if there.lfs is not None:
        return there.lfs.sha256 == sha256(path)
    blob = hashlib.sha1(b"blob %d\0" % size + read_at_most(path, size), usedforsecurity=False)
    return there.blob_id == blob.hexdigest()


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
    files = [CommitOperationAdd(row.name, planned.folder / row.name) for row in planned.rows]
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
    except (OSError, httpx2.HTTPError, RuntimeError, ValueError) as error:
        raise Unreachable(
            f"nothing was committed to {target.repository}: {_why(error, target)}. Run the command "
            "again afterwards; what arrived already is not sent twice."
        ) from error
    return done.commit_url


def _why(error: Exception, target: Target) -> str:
    code = status(error)
    if code in FORBIDDEN:
        return f"the hub refuses it ({code}), so {TOKEN.format(target.repository)}"
    if code is None and type(error) is ValueError:
        return " ".join(str(error).split()).rstrip(".")
    return reason(error)
