"""Where checkpoints usually lie, and where to get them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from weights.errors import WeightsNotFound, WrongDigest
from weights.files import sha256
from weights.progress import Progress, Quiet
from weights.sources import cache
from weights.sources.hub import HubFile, cached
from weights.sources.transfer import check


@dataclass(frozen=True)
class Published:
    """Under which names a model's weights were published; those that were not are empty.

    `wanted` is the name to ask for. `checkpoint` is the authors' file; where its name carries the
    beginning of its sha256, that is `digest`. `archive` is Equimo's; `repository` holds
    transformers' or timm's files, on the hub; `hub` are files that the hub's cache may hold, the
    first of which is downloaded where there are none. `advice` says how to go on without.
    `embedded` is a file that a package brings along.
    """

    wanted: str
    checkpoint: str
    digest: str
    archive: str
    repository: str
    hub: tuple[HubFile, ...]
    advice: str
    embedded: Path | None = None


@dataclass(frozen=True)
class Found:
    """A checkpoint, where it was found, and its sha256 if that was needed."""

    path: Path
    where: str
    sha256: str | None = None


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


def locate(published: Published, listener: Progress, offline: bool = False) -> Found:
    """The weights of a model: from a folder, from a cache, or from the hub.

    **Raises** `WeightsNotFound` or `Unreachable`, which say where it looked and how to go on;
    `WrongDigest` if a cache holds a damaged file.
    """
    found = next(search(published, listener), None)
    if found is None:
        file, advice = downloadable(published, offline)
        path, digest = cache.fill(file, advice, listener)
        found = Found(path, f"the hub ({file})", digest)
    listener.stage(f"weights: {found.path.name}, from {found.where}")
    return found


def downloadable(published: Published, offline: bool = False) -> tuple[HubFile, str]:
    """Which file of a hub to take where there is none, and how to go on without it.

    **Raises** `WeightsNotFound`.
    """
    nowhere = _searched(published)
    if offline or not published.hub:
        hub = "--offline forbids asking" if offline else "none is known to have it freely"
        raise WeightsNotFound(f"There is {nowhere}, and as for a hub, {hub}. {published.advice}")
    return published.hub[0], f"There is {nowhere}. {published.advice}"


def search(published: Published, listener: Progress) -> Iterator[Found]:
    """Everything that is there already, the best first."""
    for path in filter(Path.exists, places(published)):
        where = "this package" if path == published.embedded else str(path.parent)
        named = path.name == published.checkpoint and path.parent in torch_caches()
        yield Found(path, where, _digest(path, published, listener) if named else None)
    for file in hub_files(published):
        for copy, holder in ((cache.kept(file), cache.root()), (cached(file), "the hub's cache")):
            if copy is not None:
                digest = check(copy, file, listener)
                # Of several files, one digest says nothing.
                yield Found(copy, f"{holder} ({file})", None if copy.suffix == ".json" else digest)


def places(published: Published) -> Iterator[Path]:
    """Where a file or folder of one of the names may lie, the best first."""
    if published.embedded is not None:
        yield published.embedded
    names = (published.checkpoint, published.archive, Path(published.repository).name)
    yield from (folder / name for folder in own_folders() for name in names if name)
    if published.checkpoint:
        yield from (folder / published.checkpoint for folder in torch_caches())
    for name in filter(None, (published.archive, published.archive.removesuffix(".tar.lz4"))):
        yield equimo_cache() / name.partition("_")[0] / name


def hub_files(published: Published) -> tuple[HubFile, ...]:
    """Files that a download of somebody's, ours or another program's, may have left."""
    names = ("model.safetensors", "model.safetensors.index.json") if published.repository else ()
    return (*(HubFile(published.repository, name) for name in names), *published.hub)


def _digest(path: Path, published: Published, listener: Progress) -> str:
    """The sha256 of a file, which must be the one in its name if there is one."""
    listener.stage(f"checking {path}", path.stat().st_size)
    found = sha256(path, listener.step)
    if not found.startswith(published.digest):
        raise WrongDigest(
            f"{path} is damaged: its name says that its sha256 begins with {published.digest}, "
            f"but it is {found:.12}…: remove it and download it again."
        )
    return found


def _searched(published: Published) -> str:
    places = (*own_folders(), *torch_caches(), equimo_cache(), cache.root() / cache.CHECKPOINTS)
    unset = "" if "ZOO_WEIGHTS_DIR" in os.environ else " (and ZOO_WEIGHTS_DIR is not set)"
    return f"no {published.wanted} in {', '.join(map(str, places))}{unset} or the hub's cache"


def find_named(name: str, published: Published) -> Path:
    """The file or folder of that name in the usual places.

    **Raises** `WeightsNotFound`.
    """
    folders = (*own_folders(), *torch_caches(), equimo_cache() / name.partition("_")[0])
    usual = (folder / name for folder in folders)
    named = (found.path for found in search(published, Quiet()) if found.path.name == name)
    for path in chain(usual, named):
        if path.exists():
            return path
    raise WeightsNotFound(
        f"no {name} in {', '.join(map(str, folders))}: name the file with `--weights PATH`."
    )
