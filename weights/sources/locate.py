"""Find checkpoints in the folders where they are usually stored, or download them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from weights.containers.safetensors import INDEX, TENSORS
from weights.errors import WeightsNotFound
from weights.files import check_digest_in_name, digest_in_name, sha256
from weights.parameters import parameter
from weights.progress import Progress, Quiet
from weights.sources.content import check_content, check_digest
from weights.sources.fetch import fetch
from weights.sources.hub import HubFile, find_cached


@dataclass(frozen=True)
class PublishedFiles:
    """Names of the files under which a model's weights were published. A name is empty if there is
    no such file.

    **Arguments:**

    - `name`: name of the model.
    - `checkpoint`: name of the authors' file.
    - `archive`: name of Equimo's archive.
    - `repository`: repository on the hub with the files of transformers or timm.
    - `hub`: files of the publishers on the hub. The first one is downloaded if no file is found.
    - `terms`: web page of the licence.
    - `advice`: how the user can continue without the weights.
    - `mirrors`: copies by others on the hub, which are downloaded only on request.
    - `embedded`: file that a Python package contains.
    """

    name: str
    checkpoint: str
    archive: str
    repository: str
    hub: tuple[HubFile, ...]
    terms: str
    advice: str
    mirrors: tuple[HubFile, ...] = ()
    embedded: Path | None = None


@dataclass(frozen=True)
class LocatedCheckpoint:
    """Path of a checkpoint that was found.

    **Arguments:**

    - `path`: the path.
    - `origin`: a description of the folder, cache or hub it was found in, for the user.
    - `sha256`: the digest if it was computed, which is so for a file of a hub that is no index, and
      for a file whose name contains a digest. None for others.
    - `source`: the file on the hub with its commit; None if it does not come from a hub.
    """

    path: Path
    origin: str
    sha256: str | None = None
    source: HubFile | None = None


def user_folders() -> tuple[Path, ...]:
    """Return the folders of users in which weights are searched: the one in `ZOO_WEIGHTS_DIR`, if
    that is set, and the working directory."""
    configured_folder = os.environ.get("ZOO_WEIGHTS_DIR")
    return ((Path(configured_folder).expanduser(),) if configured_folder else ()) + (Path.cwd(),)


def torch_caches() -> tuple[Path, ...]:
    """Return the folders in which DINOv3's code and torch.hub store downloads."""
    hub = Path.home() / ".cache" / "torch" / "hub"
    return hub / "dinov3" / "weights", hub / "checkpoints"


def equimo_cache() -> Path:
    """Return the folder in which Equimo stores downloads. It has a folder for each family."""
    return Path.home() / ".cache" / "equimo"


def locate(
    published: PublishedFiles, listener: Progress, offline: bool = False
) -> LocatedCheckpoint:
    """Return the checkpoint with a model's weights.

    It is searched in folders and caches. If it is not there, it is downloaded from the hub.

    **Arguments:**

    - `published`: the names of the model's files.
    - `listener`: the listener of the progress, who is also told the licence before a download.
    - `offline`: whether nothing is downloaded.

    **Raises** `WeightsNotFound` if nothing is found and no download is possible, `Unreachable` if
    the download fails, and `WrongDigest` if a folder, a cache or the hub has a damaged file. The
    messages end with `published.advice`, except that of `WrongDigest`.
    """
    if (weights := next(search_weights(published, listener), None)) is None:
        file, advice = choose_download(published, offline)
        tell = partial(report_weights_licence, published, listener)
        path, digest = fetch(file, advice, listener, tell)
        weights = _as_located(path, file, f"the hub ({file})", digest)
    listener.stage(f"weights: {weights.path.name}, from {weights.origin}")
    return weights


def choose_download(
    published: PublishedFiles, offline: bool = False, mirror: bool = False
) -> tuple[HubFile, str]:
    """Return the file to download if a model's weights are not found, and advice in case this
    fails.

    The file is the first one of the publisher or of the mirrors.

    **Arguments:**

    - `published`: the names of the model's files.
    - `offline`: whether downloads are forbidden.
    - `mirror`: whether the file is that of a mirror instead of the publisher.

    **Raises** `WeightsNotFound` if downloads are forbidden, or if there is no such file on a hub.
    """
    missing = f"{published.name} is not on this machine"
    files = published.mirrors if mirror else published.hub
    if offline or not files:
        forbidden = f"{parameter('offline')} forbids asking a hub"
        hub = forbidden if offline else "no hub is known to give it freely"
        raise WeightsNotFound(f"{missing}, and {hub}. {published.advice}")
    return files[0], f"{missing}. {published.advice}"


def report_owner(published: PublishedFiles, file: HubFile, listener: Progress) -> None:
    """Tell the listener who owns the file that is about to be downloaded, if it is a copy by others
    (`published.mirrors`)."""
    if file in published.mirrors:
        listener.note(f"{file.repository} is a copy by {file.owner}, who is not the publisher")


def report_weights_licence(published: PublishedFiles, listener: Progress) -> None:
    """Tell the listener the licence of the weights that are about to be downloaded."""
    listener.note(f"these weights have their own licence: {published.terms}")


def search_weights(
    published: PublishedFiles, listener: Progress, is_dry: bool = False
) -> Iterator[LocatedCheckpoint]:
    """Yield the checkpoints of a model that are on this machine, in order of preference: folders
    first, then the hub's cache.

    A file whose name contains a digest, and each file in the hub's cache, is checked before it is
    yielded.

    **Arguments:**

    - `published`: the names of the model's files.
    - `listener`: the listener of the progress.
    - `is_dry`: whether damaged files are kept. Otherwise a damaged file in the hub's cache is
      deleted.

    **Raises** `WrongDigest` if a file is damaged.
    """
    for path in filter(Path.exists, candidate_paths(published)):
        description = "this package" if path == published.embedded else str(path.parent)
        digest = None
        if digest_in_name(path):
            listener.stage(f"checking {path}", path.stat().st_size)
            digest = sha256(path, listener.step)
            check_digest_in_name(path, digest)
        yield LocatedCheckpoint(path, description, digest)
    for file in hub_files(published):
        if (copy := find_cached(file)) is not None:
            digest = check_digest(copy, file, listener, is_dry)
            check_content(copy, file, is_dry)
            yield _as_located(copy, file, f"the hub's cache ({file})", digest)


def _as_located(path: Path, file: HubFile, description: str, digest: str) -> LocatedCheckpoint:
    """Return a downloaded file as a located checkpoint.

    **Arguments:**

    - `path`: its path in the hub's cache.
    - `file`: the file on the hub.
    - `description`: the folder, cache or hub it was found in, for the user.
    - `digest`: its sha256, which is left out for an index.
    """
    # The digest of an index says nothing about the files that it names.
    single_digest = None if path.suffix == ".json" else digest
    return LocatedCheckpoint(
        path, description, single_digest, replace(file, revision=file.commit_of(path))
    )


def candidate_paths(published: PublishedFiles) -> Iterator[Path]:
    """Yield the paths at which a model's checkpoint may lie, in order of preference. They need not
    exist."""
    if published.embedded is not None:
        yield published.embedded
    names = (published.checkpoint, published.archive, Path(published.repository).name)
    yield from (folder / name for folder in user_folders() for name in names if name)
    if published.checkpoint:
        yield from (folder / published.checkpoint for folder in torch_caches())
    for name in filter(None, (published.archive, published.archive.removesuffix(".tar.lz4"))):
        yield equimo_cache() / name.partition("_")[0] / name


def hub_files(published: PublishedFiles) -> tuple[HubFile, ...]:
    """Return the files on a hub that may be in the hub's cache.

    They are the files of transformers or timm in `published.repository`, those of the publisher,
    and those of mirrors.
    """
    names = (TENSORS, INDEX) if published.repository else ()
    return (
        *(HubFile(published.repository, name) for name in names),
        *published.hub,
        *published.mirrors,
    )


def describe_searched_folders() -> str:
    """Return the folders in which weights are searched, as text."""
    folders = (*user_folders(), *torch_caches(), equimo_cache())
    unset = "" if "ZOO_WEIGHTS_DIR" in os.environ else " (and ZOO_WEIGHTS_DIR is not set)"
    return f"{', '.join(map(str, folders))}{unset} and the hub's cache"


def find_file_or_folder(name: str, published: PublishedFiles) -> Path:
    """Return the path of the file or folder with this name in one of the usual folders, or among a
    model's files on this machine.

    **Raises** `WeightsNotFound` if there is none, and `WrongDigest` if a file of the model is
    damaged.
    """
    folders = (*user_folders(), *torch_caches(), equimo_cache() / name.partition("_")[0])
    candidates = (folder / name for folder in folders)
    located_paths = (
        located.path for located in search_weights(published, Quiet()) if located.path.name == name
    )
    for path in chain(candidates, located_paths):
        if path.exists():
            return path
    raise WeightsNotFound(
        f"no {name} in {', '.join(map(str, folders))}: name the file with {parameter('weights')} "
        "PATH."
    )
