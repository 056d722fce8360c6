"""Where checkpoints usually lie, and where to get them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from weights.containers.safetensors import INDEX, TENSORS
from weights.errors import WeightsNotFound
from weights.files import hold_to_name, promised, sha256
from weights.parameters import parameter
from weights.progress import Progress, Quiet
from weights.sources.content import check_content, check_digest
from weights.sources.fetch import fetch
from weights.sources.hub import HubFile, cached


@dataclass(frozen=True)
class PublishedFiles:
    """Under which names a model's weights were published; those that were not are empty.

    `name` is the name to ask for. `checkpoint` is the authors' file, `archive` Equimo's;
    `repository` holds transformers' or timm's files, on the hub. `hub` are the publishers' files
    there, the first of which is downloaded where there are none, and `mirrors` copies of somebody
    else's, which are downloaded for who asks for them. `terms` is the page of the licence, `advice`
    says how to go on without. `embedded` is a file that a package brings along.
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
    """A checkpoint, where it was found, its sha256 if that was needed, and at which commit of which
    repository it is, if it came from a hub."""

    path: Path
    where: str
    sha256: str | None = None
    source: HubFile | None = None


def own_folders() -> tuple[Path, ...]:
    """The user's own folder and this one."""
    own = os.environ.get("ZOO_WEIGHTS_DIR")
    return ((Path(own).expanduser(),) if own else ()) + (Path.cwd(),)


def torch_caches() -> tuple[Path, ...]:
    """Where DINOv3's code and torch.hub put their downloads."""
    hub = Path.home() / ".cache" / "torch" / "hub"
    return hub / "dinov3" / "weights", hub / "checkpoints"


def equimo_cache() -> Path:
    """Where Equimo puts its downloads, a folder for each family."""
    return Path.home() / ".cache" / "equimo"


def locate(
    published: PublishedFiles, listener: Progress, offline: bool = False
) -> LocatedCheckpoint:
    """The weights of a model: from a folder, from a cache, or from the hub.

    **Raises** `WeightsNotFound` or `Unreachable`, which say where it looked and how to go on;
    `WrongDigest` if a folder or a cache holds a damaged file.
    """
    if (weights := next(search_weights(published, listener), None)) is None:
        file, advice = downloadable(published, offline)
        tell = partial(tell_terms, published, listener)
        path, digest = fetch(file, advice, listener, tell)
        weights = _from_hub(path, file, f"the hub ({file})", digest)
    listener.stage(f"weights: {weights.path.name}, from {weights.where}")
    return weights


def downloadable(
    published: PublishedFiles, offline: bool = False, mirror: bool = False
) -> tuple[HubFile, str]:
    """File of a hub to take where there is none, and how to go on without it. **Raises**
    `WeightsNotFound`."""
    nowhere = f"There is no {published.name} on this machine"
    files = published.mirrors if mirror else published.hub
    if offline or not files:
        forbidden = f"{parameter('offline')} forbids asking a hub"
        hub = forbidden if offline else "no hub is known to give it freely"
        raise WeightsNotFound(f"{nowhere}, and {hub}. {published.advice}")
    return files[0], f"{nowhere}. {published.advice}"


def tell_owner(published: PublishedFiles, file: HubFile, listener: Progress) -> None:
    """Say whose file is about to be downloaded, if it is not the publishers'."""
    if file in published.mirrors:
        listener.note(f"{file.repository} is a copy by {file.owner}, who is not the publisher")


def tell_terms(published: PublishedFiles, listener: Progress) -> None:
    """Print the licence of weights that are about to be downloaded."""
    listener.note(f"these weights have terms of their own: {published.terms}")


def search_weights(
    published: PublishedFiles, listener: Progress, is_dry: bool = False
) -> Iterator[LocatedCheckpoint]:
    """Everything that is there already, the best first. A dry run leaves all of it as it is."""
    for path in filter(Path.exists, places(published)):
        where = "this package" if path == published.embedded else str(path.parent)
        digest = None
        if promised(path):
            listener.stage(f"checking {path}", path.stat().st_size)
            digest = sha256(path, listener.step)
            hold_to_name(path, digest)
        yield LocatedCheckpoint(path, where, digest)
    for file in hub_files(published):
        if (copy := cached(file)) is not None:
            digest = check_digest(copy, file, listener, is_dry)
            check_content(copy, file, is_dry)
            yield _from_hub(copy, file, f"the hub's cache ({file})", digest)


def _from_hub(path: Path, file: HubFile, where: str, digest: str) -> LocatedCheckpoint:
    """Return a file in the hub's cache as a checkpoint that was found."""
    # Of several files, one digest says nothing.
    checked = None if path.suffix == ".json" else digest
    return LocatedCheckpoint(path, where, checked, replace(file, revision=file.commit_of(path)))


def places(published: PublishedFiles) -> Iterator[Path]:
    """Where a file or folder of one of the names may lie, the best first."""
    if published.embedded is not None:
        yield published.embedded
    names = (published.checkpoint, published.archive, Path(published.repository).name)
    yield from (folder / name for folder in own_folders() for name in names if name)
    if published.checkpoint:
        yield from (folder / published.checkpoint for folder in torch_caches())
    for name in filter(None, (published.archive, published.archive.removesuffix(".tar.lz4"))):
        yield equimo_cache() / name.partition("_")[0] / name


def hub_files(published: PublishedFiles) -> tuple[HubFile, ...]:
    """Return the files of a hub that may be in its cache."""
    names = (TENSORS, INDEX) if published.repository else ()
    return (
        *(HubFile(published.repository, name) for name in names),
        *published.hub,
        *published.mirrors,
    )


def searched() -> str:
    """Where weights are looked for, in words."""
    places = (*own_folders(), *torch_caches(), equimo_cache())
    unset = "" if "ZOO_WEIGHTS_DIR" in os.environ else " (and ZOO_WEIGHTS_DIR is not set)"
    return f"{', '.join(map(str, places))}{unset} and the hub's cache"


def find_named(name: str, published: PublishedFiles) -> Path:
    """The file or folder of that name in the usual places. **Raises** `WeightsNotFound`."""
    folders = (*own_folders(), *torch_caches(), equimo_cache() / name.partition("_")[0])
    usual = (folder / name for folder in folders)
    named = (
        candidate.path
        for candidate in search_weights(published, Quiet())
        if candidate.path.name == name
    )
    for path in chain(usual, named):
        if path.exists():
            return path
    raise WeightsNotFound(
        f"no {name} in {', '.join(map(str, folders))}: name the file with {parameter('weights')} "
        "PATH."
    )
