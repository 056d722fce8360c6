"""Download a checkpoint of a hub with its shards, and check it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from weights.containers.safetensors import INDEX, shard_names
from weights.progress import Progress
from weights.sources.content import check_content, check_digest
from weights.sources.hub import HubFile, download, resolve_file


def fetch(
    file: HubFile,
    advice: str,
    listener: Progress,
    before_download: Callable[[], None] | None = None,
    folder: Path | None = None,
) -> tuple[Path, str]:
    """Download a file of a hub into the hub's cache, or into `folder`, and check it. Return its
    path and its sha256.

    If the file is an index, the files that it lists are downloaded with it, except those that exist
    already. The sha256 is that of the index.

    **Arguments:**

    - `file`: the file to download.
    - `advice`: the end of the message if the hub is unreachable.
    - `listener`: the listener of the progress.
    - `before_download`: a function that is called once the hub has granted access.
    - `folder`: the folder to use in place of the cache.

    **Raises** `Unreachable` if the hub does not return the file, and `WrongDigest` if the hub's
    digest or size is not the recorded one, or the downloaded content is wrong. Wrong content is
    deleted.
    """
    resolved = resolve_file(file, advice, listener)
    if before_download is not None:
        before_download()
    # The revision is the name of the branch, so that the cache records the branch's commit.
    branch_file = replace(resolved, revision=file.revision)
    path = download(branch_file, advice, listener, folder)
    digest = check_digest(path, branch_file, listener)
    check_content(path, branch_file)
    commit = resolved.revision if folder else file.commit_of(path)
    for name in shard_names(path) if file.name.endswith(INDEX) else ():
        if not path.with_name(name).exists():
            shard = HubFile(file.repository, str(PurePosixPath(file.name).with_name(name)), commit)
            fetch(shard, advice, listener, folder=folder)
    return path, digest
