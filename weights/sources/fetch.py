"""A checkpoint of a hub, with its shards, downloaded and checked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from weights.containers.safetensors import INDEX, shards
from weights.progress import Progress
from weights.sources.content import check_content, check_digest
from weights.sources.hub import HubFile, ask, download


def fetch(
    file: HubFile,
    advice: str,
    listener: Progress,
    before: Callable[[], None] | None = None,
    folder: Path | None = None,
) -> tuple[Path, str]:
    """Download a file into the hub's cache, or below `folder`, and return its path and sha256.

    The shards of an index come with it. `before` is called before a download that the hub allows.

    **Raises** `Unreachable`, whose message ends in `advice`, or `WrongDigest`; the file is removed
    then.
    """
    answer = ask(file, advice, listener)
    if before is not None:
        before()
    # By the name of its branch, so that the cache records which commit that is.
    named = replace(answer, revision=file.revision)
    path = download(named, advice, listener, folder)
    digest = check_digest(path, named, listener)
    check_content(path, named)
    commit = answer.revision if folder else file.commit_of(path)
    for name in shards(path) if file.name.endswith(INDEX) else ():
        if not path.with_name(name).exists():
            shard = HubFile(file.repository, str(PurePosixPath(file.name).with_name(name)), commit)
            fetch(shard, advice, listener, folder=folder)
    return path, digest
