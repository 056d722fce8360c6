"""Files that somebody built, from a hub into a folder: all of one commit, whole, and checked.

huggingface-hub downloads them into a hidden folder beside their places, where files that arrived
before an interruption are kept. They are moved when all of them are right; the manifest comes last.
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
from zoo.artifacts.read import LARGEST_MANIFEST, parse
from zoo.artifacts.schema import MANIFEST, File, Manifest, Variant
from zoo.common.errors import BadFile, BadOutput, BadRequest
from zoo.common.staging import locked_output, refuse_links, undivided, writing

NAMESPACE = "jax-onnx-zoo"
"""Whose repositories are asked, unless the environment's ZOO_HUB names somebody else."""

BRANCH = "main"

COLLECTING = ".zoo-pull"


@dataclass(frozen=True)
class PullSpec:
    """Request of a pull: what, and where to. No revision means the newest, or offline what there
    is."""

    model: str
    variants: tuple[str, ...]
    folder: Path
    revision: str | None = None
    offline: bool = False
    force: bool = False

    @property
    def manifest(self) -> HubFile:
        """The first file to ask for."""
        return HubFile(f"{namespace()}/{self.model}", MANIFEST, self.revision or BRANCH)

    @property
    def advice(self) -> str:
        """How to go on without."""
        return (
            "Name a repository's owner with ZOO_HUB and its branch, tag or commit with "
            f"{parameter('revision')}, or make the files yourself with `zoo build {self.model}`."
        )


@dataclass(frozen=True)
class Listing:
    """A manifest, the bytes it was read from, and the revision its files are taken from."""

    manifest: Manifest
    content: bytes
    revision: str
    where: str


@dataclass(frozen=True)
class PullResult:
    """Result of a pull: what is in the folder now, and how many files had to be brought there."""

    where: str
    variants: Mapping[str, Variant]
    brought: int
    kept: int


@dataclass(frozen=True)
class Preview:
    """Preview of a pull: what it would bring, and how many files are there already."""

    where: str
    missing: tuple[File, ...]
    bytes: int
    kept: int


def namespace() -> str:
    """The owner of the repositories. **Raises** `BadRequest`."""
    name = os.environ.get("ZOO_HUB") or NAMESPACE
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}", name, re.ASCII):
        raise BadRequest(f"ZOO_HUB is {name!r}: name a user or an organization of the hub.")
    return name


def pull_folder(request: PullSpec, progress: Progress) -> PullResult:
    """Bring what the variants need into the folder; what is there and right stays.

    **Raises** `Unreachable`, `WrongDigest`, `BadFile` for a manifest that makes no sense,
    `BadRequest` for a variant that there is not, `BadOutput` for other files in the way.
    """
    (listing, variants), folder = _listing(request, progress), request.folder
    with locked_output(folder, progress), writing(folder), _collecting(folder) as parts:
        comparison, in_the_way = _compare(request, listing, variants, progress)
        if comparison.missing:
            tell_licence(listing, progress)
        for file in comparison.missing:
            _bring(file, listing, request, parts, progress)
        _put_in_place(folder, parts, comparison.missing, in_the_way, listing.content)
    return PullResult(listing.where, variants, len(comparison.missing), comparison.kept)


def tell_licence(listing: Listing, progress: Progress) -> None:
    """Say under which terms the files are that will come."""
    licence = listing.manifest.licence
    page = f", {licence.page}" if licence.page else ""
    progress.note(f"the files of {listing.where} have terms of their own: {licence.name}{page}")


def preview(request: PullSpec, progress: Progress) -> Preview:
    """Preview what `pull` would bring, without writing anything. **Raises** as it does."""
    return _compare(request, *_listing(request, progress), progress)[0]


def _compare(
    request: PullSpec, listing: Listing, variants: Mapping[str, Variant], progress: Progress
) -> tuple[Preview, list[str]]:
    """What is missing of the folder, and what is in the way. **Raises** `BadOutput`."""
    folder, manifest = request.folder, listing.manifest
    refuse_links(folder, manifest.listed)
    needed = manifest.needed(variants)
    there = [file for file in manifest.files if file.is_complete(folder)]
    if there:
        progress.stage(f"checking {folder}", sum(file.bytes for file in there))
    right = {file.name for file in there if file.is_at(folder, progress.step)}
    in_the_way = _in_the_way(request, listing, right)
    missing = tuple(file for file in needed if file.name not in right)
    size = sum(file.bytes for file in missing)
    return Preview(listing.where, missing, size, len(needed) - len(missing)), in_the_way


@contextmanager
def _collecting(folder: Path) -> Generator[Path]:
    """Make a hidden folder, which stays only if it holds complete files."""
    is_new = not folder.exists()
    parts = folder / COLLECTING
    refuse_links(folder, [f"{COLLECTING}/{MANIFEST}"])
    parts.mkdir(parents=True, exist_ok=True)
    if linked := [path for path in parts.rglob("*") if path.is_symlink()]:
        raise BadOutput(
            f"{linked[0]} is a link: remove it, or name another folder with {parameter('out')}."
        )
    try:
        yield parts
    finally:
        # The library keeps notes of its own in folders whose names begin with a dot.
        if not any(path.is_file() for path in parts.glob("[!.]*/[!.]*/**/*")):
            shutil.rmtree(parts, ignore_errors=True)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()


def _listing(request: PullSpec, progress: Progress) -> tuple[Listing, dict[str, Variant]]:
    """The manifest, and what is wanted of it.

    **Raises** `BadFile` for what its builder would not have been allowed to push.
    """
    listing = _offline(request) if request.offline else _online(request, progress)
    variants = listing.manifest.pick(request.variants)
    failed = [name for name, variant in variants.items() if not variant.passed]
    if failed or not listing.manifest.complete:
        what = f"variant {failed[0]} failed its verification" if failed else "a build broke off"
        raise BadFile(
            f"{listing.where} is not fit for use ({what}): take another {parameter('revision')}."
        )
    return listing, variants


def _online(request: PullSpec, progress: Progress) -> Listing:
    """Of the commit that the revision is at now."""
    file = resolve_file(request.manifest, request.advice, progress)
    where = f"{file.repository} at {file.revision:.12}"
    if (file.size or 0) > LARGEST_MANIFEST:
        raise BadFile(
            f"the manifest of {where} has {file.size} bytes: take another {parameter('revision')}."
        )
    with TemporaryDirectory() as place:
        path = download(file, request.advice, progress, Path(place))
        content = read_at_most(path, LARGEST_MANIFEST + 1)
    manifest = parse(content, f"the manifest of {where}", request.model)
    return Listing(manifest, content, file.revision, where)


def _offline(request: PullSpec) -> Listing:
    """Of the folder, or of the hub's cache."""
    own = request.folder / MANIFEST
    copy = find_cached(request.manifest)
    # The folder does not say of which revision it is.
    path = own if request.revision is None and own.is_file() else copy
    if path is None:
        raise _forbidden(request.manifest, request)
    content = read_at_most(path, LARGEST_MANIFEST + 1)
    revision = request.manifest.revision if copy is None else copy.parent.name
    return Listing(parse(content, str(path), request.model), content, revision, str(path.parent))


def _forbidden(file: HubFile, request: PullSpec) -> Unreachable:
    return Unreachable(
        f"{file} is neither in {request.folder} nor in the hub's cache, and {parameter('offline')} "
        "forbids asking: run the command once without it."
    )


def _in_the_way(request: PullSpec, listing: Listing, right: set[str]) -> list[str]:
    """Files in the folder that the manifest has otherwise. **Raises** `BadOutput`."""
    folder = request.folder
    names = [name for name in listing.manifest.listed if name not in right]
    own = folder / MANIFEST
    size = len(listing.content) + 1
    if not own.is_file() or own.is_symlink() or read_at_most(own, size) != listing.content:
        names.append(MANIFEST)
    present = [name for name in names if os.path.lexists(folder / name)]
    if present and not request.force:
        raise BadOutput(
            f"{folder / present[0]} is not the file of {listing.where}: replace it with "
            f"{parameter('force')}, or name another folder with {parameter('out')}."
        )
    return present


def _bring(
    file: File, listing: Listing, request: PullSpec, parts: Path, progress: Progress
) -> None:
    """Copy a file from the hub's cache, or download it, and compare its digest."""
    repository = request.manifest.repository
    remote = HubFile(repository, file.name, listing.revision, file.sha256, file.bytes)
    part = _part(parts, file)
    copy = find_cached(remote)
    if copy is not None:
        check_digest(copy, remote, progress)
        part.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(copy, part)
    elif request.offline:
        raise _forbidden(remote, request)
    else:
        advice = "The files that arrived are kept, so run the command again to go on."
        download(resolve_file(remote, advice, progress), advice, progress, parts / file.sha256)
    check_digest(part, remote, progress)


def _part(parts: Path, file: File) -> Path:
    # By its digest, so that another revision does not go on with this one's bytes.
    return parts / file.sha256 / file.name


def _put_in_place(
    folder: Path, parts: Path, files: Sequence[File], in_the_way: list[str], manifest: bytes
) -> None:
    """Move everything; who is killed in the middle leaves a folder without manifest."""
    with undivided():
        for name in sorted(in_the_way, key=lambda name: name != MANIFEST):
            (folder / name).unlink()
        # What a model needs comes before it.
        for file in sorted(files, key=lambda file: file.name.endswith(".onnx")):
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            _part(parts, file).replace(target)
        (parts / MANIFEST).write_bytes(manifest)
        (parts / MANIFEST).replace(folder / MANIFEST)
    # Parts of what was wanted once, too.
    shutil.rmtree(parts)
