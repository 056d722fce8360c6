"""Download the files that somebody built from a hub into a folder (`zoo pull`).

All files are of one commit, complete and checked. huggingface-hub downloads them into a hidden
folder in the target folder, where complete files are kept after an interruption. They are moved to
their paths when all of them are checked, the manifest last.
"""

import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from weights.errors import Unreachable
from weights.opening import read_at_most
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.content import check_digest
from weights.sources.hub import HubFile, download, find_cached, resolve_file
from zoo.artifacts.read import MAX_MANIFEST_BYTES, parse_manifest
from zoo.artifacts.schema import MANIFEST, File, Manifest, Variant
from zoo.common.errors import BadFile, BadOutput, BadRequest
from zoo.common.staging import check_no_links, delay_signals, locked_output, translate_write_errors

NAMESPACE = "jax-onnx-zoo"
"""The owner of the repositories on the hub.

The environment variable ZOO_HUB can name another owner.
"""

DEFAULT_BRANCH = "main"

PARTIAL_DOWNLOADS_FOLDER = ".zoo-pull"
"""Hidden folder for files that are not complete yet."""


@dataclass(frozen=True)
class PullRequest:
    """A request to download files of a built model from the hub.

    - `model`: the name of the model.
    - `variants`: the names of the variants.
    - `folder`: the folder to write to.
    - `revision`: the branch, tag or commit. None means the newest commit, or offline the commit
      that was downloaded before.
    - `offline`: whether requests to the hub are forbidden.
    - `force`: whether existing files may be replaced.
    """

    model: str
    variants: tuple[str, ...]
    folder: Path
    revision: str | None = None
    offline: bool = False
    force: bool = False

    @property
    def manifest(self) -> HubFile:
        """The file manifest.json of the model on the hub."""
        return HubFile(f"{hub_namespace()}/{self.model}", MANIFEST, self.revision or DEFAULT_BRANCH)

    @property
    def advice(self) -> str:
        """A sentence about what the user can do if the model cannot be downloaded."""
        return (
            "Name a repository's owner with ZOO_HUB and its branch, tag or commit with "
            f"{parameter('revision')}, or make the files yourself with `zoo build {self.model}`."
        )


@dataclass(frozen=True)
class LocatedManifest:
    """A manifest and its origin.

    - `content`: the bytes that the manifest was read from.
    - `revision`: the revision of the files that the manifest lists.
    - `origin`: the origin of the manifest, in words.
    """

    manifest: Manifest
    content: bytes
    revision: str
    origin: str


@dataclass(frozen=True)
class PullResult:
    """The result of a download.

    - `where`: the origin of the files, in words.
    - `variants`: the variants in the folder.
    - `brought`: the number of files that were downloaded or copied from the hub's cache.
    - `kept`: the number of requested files that were in the folder already.

    The manifest is not counted.
    """

    where: str
    variants: Mapping[str, Variant]
    brought: int
    kept: int


@dataclass(frozen=True)
class PullPreview:
    """The files that a download would write.

    - `where`: the origin of the files, in words.
    - `missing`: the files that would be downloaded, also those that replace other content. The
      manifest is not among them.
    - `bytes`: their total size.
    - `kept`: the number of requested files that are in the folder already.
    """

    where: str
    missing: tuple[File, ...]
    bytes: int
    kept: int


def hub_namespace() -> str:
    """Return the owner of the repositories on the hub: ZOO_HUB, or `NAMESPACE` if that is not set.

    **Raises** `BadRequest` if the environment variable ZOO_HUB is not a valid name.
    """
    name = os.environ.get("ZOO_HUB") or NAMESPACE
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}", name, re.ASCII):
        raise BadRequest(f"ZOO_HUB is {name!r}: name a user or an organization of the hub.")
    return name


def pull_folder(request: PullRequest, progress: Progress) -> PullResult:
    """Download the files of a model's variants into a folder, and compare their digests.

    Files in the folder that have the right digest are kept. New files are moved into the folder
    only when all of them are complete. Files of variants that were not requested are kept if they
    are those of the manifest; otherwise they are deleted, if the request allows this (`force`).

    **Raises** `Unreachable` and `WrongDigest`. Raises `BadFile` for an invalid manifest, an
    incomplete build, or a requested variant that failed its verification. Raises `BadRequest` for
    an unknown variant. Raises `BadOutput` if the folder cannot be written, if a folder in it is a
    symbolic link, or if it has other content under a name of the manifest and the request does not
    allow this to be replaced.
    """
    (located, variants), folder = _read_requested_variants(request, progress), request.folder
    with (
        locked_output(folder, progress),
        translate_write_errors(folder),
        _partial_downloads_folder(folder) as parts,
    ):
        comparison, differing = _compare_folder(request, located, variants, progress)
        if comparison.missing:
            report_licence(located, progress)
        for file in comparison.missing:
            _fetch_file(file, located, request, parts, progress)
        _move_files(folder, parts, comparison.missing, differing, located.content)
    return PullResult(located.origin, variants, len(comparison.missing), comparison.kept)


def report_licence(located: LocatedManifest, progress: Progress) -> None:
    """Tell the user the licence of the files of a manifest, before they are downloaded."""
    licence = located.manifest.licence
    page = f", {licence.page}" if licence.page else ""
    progress.note(f"the files of {located.origin} have terms of their own: {licence.name}{page}")


def preview_pull(request: PullRequest, progress: Progress) -> PullPreview:
    """Return what `pull_folder` would download, without writing files to the folder.

    **Raises** the errors of `pull_folder`, except those of the download.
    """
    return _compare_folder(request, *_read_requested_variants(request, progress), progress)[0]


def _compare_folder(
    request: PullRequest,
    located: LocatedManifest,
    variants: Mapping[str, Variant],
    progress: Progress,
) -> tuple[PullPreview, list[str]]:
    """Return the preview of a download, and the names of the files that it would delete or replace.

    `variants` are the requested variants.

    **Raises** `BadOutput` if there are such files and the request does not allow this, or if a
    folder inside the target folder is a symbolic link.
    """
    folder, manifest = request.folder, located.manifest
    check_no_links(folder, manifest.files_by_name)
    needed = manifest.select_files(variants)
    present = [file for file in manifest.files if file.has_full_size_in(folder)]
    if present:
        progress.stage(f"checking {folder}", sum(file.bytes for file in present))
    intact = {file.name for file in present if file.is_intact_in(folder, progress.step)}
    differing = _find_differing_files(request, located, intact)
    missing = tuple(file for file in needed if file.name not in intact)
    size = sum(file.bytes for file in missing)
    return PullPreview(located.origin, missing, size, len(needed) - len(missing)), differing


@contextmanager
def _partial_downloads_folder(folder: Path) -> Generator[Path]:
    """Yield a hidden folder for downloads inside `folder`.

    When the `with` block ends, the hidden folder is removed, unless it holds complete files, which
    another attempt can use. `folder` is created, and removed again if it is then empty.

    **Raises** `BadOutput` if the hidden folder is a symbolic link or contains one.
    """
    is_new = not folder.exists()
    parts = folder / PARTIAL_DOWNLOADS_FOLDER
    check_no_links(folder, [f"{PARTIAL_DOWNLOADS_FOLDER}/{MANIFEST}"])
    parts.mkdir(parents=True, exist_ok=True)
    if links := [path for path in parts.rglob("*") if path.is_symlink()]:
        raise BadOutput(
            f"{links[0]} is a link: remove it, or name another folder with {parameter('out')}."
        )
    try:
        yield parts
    finally:
        # huggingface-hub keeps its own records in folders whose names begin with a dot.
        if not any(path.is_file() for path in parts.glob("[!.]*/[!.]*/**/*")):
            shutil.rmtree(parts, ignore_errors=True)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()


def _read_requested_variants(
    request: PullRequest, progress: Progress
) -> tuple[LocatedManifest, dict[str, Variant]]:
    """Return the manifest of a request's model, and the requested variants by name.

    **Raises** `BadFile` if the manifest is invalid, the build is not complete, or a requested
    variant failed its verification. Raises `BadRequest` for an unknown variant, and `Unreachable`.
    """
    located = _read_from_disk(request) if request.offline else _read_from_hub(request, progress)
    variants = located.manifest.select_variants(request.variants)
    failed = [name for name, variant in variants.items() if not variant.passed]
    if failed or not located.manifest.complete:
        problem = f"variant {failed[0]} failed its verification" if failed else "a build broke off"
        raise BadFile(
            f"{located.origin} is not fit for use ({problem}): take another "
            f"{parameter('revision')}."
        )
    return located, variants


def _read_from_hub(request: PullRequest, progress: Progress) -> LocatedManifest:
    """Return the manifest on the hub, at the commit to which the requested revision points now.

    **Raises** `Unreachable`, and `BadFile` if the manifest is invalid, too large or of another
    model.
    """
    file = resolve_file(request.manifest, request.advice, progress)
    origin = f"{file.repository} at {file.revision:.12}"
    if (file.size or 0) > MAX_MANIFEST_BYTES:
        raise BadFile(
            f"the manifest of {origin} has {file.size} bytes: take another {parameter('revision')}."
        )
    with TemporaryDirectory() as folder:
        path = download(file, request.advice, progress, Path(folder))
        content = read_at_most(path, MAX_MANIFEST_BYTES + 1)
    manifest = parse_manifest(content, f"the manifest of {origin}", request.model)
    return LocatedManifest(manifest, content, file.revision, origin)


def _read_from_disk(request: PullRequest) -> LocatedManifest:
    """Return the manifest in the request's folder, or else the one in the hub's cache.

    The folder's manifest is used only if no revision is requested. **Raises** `Unreachable` if
    neither exists.
    """
    folder_manifest = request.folder / MANIFEST
    cached_manifest = find_cached(request.manifest)
    # The folder is used only without a revision, because it does not record its own.
    path = (
        folder_manifest
        if request.revision is None and folder_manifest.is_file()
        else cached_manifest
    )
    if path is None:
        raise _offline_error(request.manifest, request)
    content = read_at_most(path, MAX_MANIFEST_BYTES + 1)
    revision = request.manifest.revision if cached_manifest is None else cached_manifest.parent.name
    return LocatedManifest(
        parse_manifest(content, str(path), request.model), content, revision, str(path.parent)
    )


def _offline_error(file: HubFile, request: PullRequest) -> Unreachable:
    """Return the error that a file is needed offline and was not downloaded before."""
    return Unreachable(
        f"{file} is neither in {request.folder} nor in the hub's cache, and {parameter('offline')} "
        "forbids asking: run the command once without it."
    )


def _find_differing_files(
    request: PullRequest, located: LocatedManifest, intact: set[str]
) -> list[str]:
    """Return the names of existing files whose content is not that of the manifest's files.

    All files of the manifest are compared, not only those of the request, and the manifest itself.
    `intact` are the names of the files whose size and digest are right. Files that are not listed
    are ignored.

    **Raises** `BadOutput` if there are differing files and the request does not allow them to be
    replaced.
    """
    folder = request.folder
    names = [name for name in located.manifest.files_by_name if name not in intact]
    folder_manifest = folder / MANIFEST
    size = len(located.content) + 1
    if (
        not folder_manifest.is_file()
        or folder_manifest.is_symlink()
        or read_at_most(folder_manifest, size) != located.content
    ):
        names.append(MANIFEST)
    present = [name for name in names if os.path.lexists(folder / name)]
    if present and not request.force:
        raise BadOutput(
            f"{folder / present[0]} is not the file of {located.origin}: replace it with "
            f"{parameter('force')}, or name another folder with {parameter('out')}."
        )
    return present


def _fetch_file(
    file: File, located: LocatedManifest, request: PullRequest, parts: Path, progress: Progress
) -> None:
    """Copy a file from the hub's cache into the folder `parts`, or download it to there.

    Its digest is compared. **Raises** `Unreachable` or `WrongDigest`.
    """
    repository = request.manifest.repository
    remote = HubFile(repository, file.name, located.revision, file.sha256, file.bytes)
    part = _part_path(parts, file)
    cached_file = find_cached(remote)
    if cached_file is not None:
        check_digest(cached_file, remote, progress)
        part.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cached_file, part)
    elif request.offline:
        raise _offline_error(remote, request)
    else:
        advice = "The files that arrived are kept, so run the command again to go on."
        download(resolve_file(remote, advice, progress), advice, progress, parts / file.sha256)
    check_digest(part, remote, progress)


def _part_path(parts: Path, file: File) -> Path:
    """Return the path in the folder `parts` at which a file is kept until it is moved."""
    # The path contains the digest, so that a download of another revision does not resume it.
    return parts / file.sha256 / file.name


def _move_files(
    folder: Path, parts: Path, files: Sequence[File], differing: list[str], manifest: bytes
) -> None:
    """Move downloaded files from `parts` into `folder`, write the manifest last, and delete
    `parts`.

    **Arguments**

    - `files`: the downloaded files.
    - `differing`: the names of files in `folder` that are deleted first, the manifest before the
      others.
    - `manifest`: the content of the manifest.

    Signals that stop the process are delayed until the files are moved. If the process is killed
    meanwhile, a folder whose manifest had to be replaced has no manifest and is not read. A folder
    that has the right manifest keeps it.
    """
    with delay_signals():
        for name in sorted(differing, key=lambda name: name != MANIFEST):
            (folder / name).unlink()
        # The files that a model needs are moved before the model.
        for file in sorted(files, key=lambda file: file.name.endswith(".onnx")):
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            _part_path(parts, file).replace(target)
        (parts / MANIFEST).write_bytes(manifest)
        (parts / MANIFEST).replace(folder / MANIFEST)
    # This also removes the parts of earlier requests.
    shutil.rmtree(parts)
