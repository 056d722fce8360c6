"""`zoo.embed`, which imports what it needs when it is called."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.embedding.embed_request import SHARD, Dtype, Embedded, EmbedRequest, Extra
from zoo.errors import BadRequest

if TYPE_CHECKING:
    from weights.progress import Progress


def embed(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    precision: str = "fp32",
    dtype: Dtype = "float16",
    extra: Sequence[Extra] = (),
    draft: bool = True,
    batch: int = 1,
    shard: int = SHARD,
    threads: int | None = None,
    scheduler: str | None = None,
    append_model: bool = False,
    prune: bool = False,
    force: bool = False,
    offline: bool = False,
    progress: Progress | None = None,
) -> Embedded:
    """Make a dataset with a row for each picture, or go on with one that was begun.

    Of a dataset that is finished only those rows are made whose pictures are new or have changed
    since: where size or time of a file are others, its sha256 decides.

    **Arguments:**

    - `sources`: folders, lists of paths (`.txt`), patterns, tar files, Parquet files, or URLs of
      these.
    - `model`: a name, a folder of `zoo build` or `zoo pull`, or an .onnx file with its manifest.
    - `out`: the dataset, a folder that ends in `.lance` or `.parquet`.
    - `precision`: the variant of the folder.
    - `dtype`: of the vectors: float16 or float32.
    - `extra`: further columns: `patches`, `logits`, `best` and `thumbnail`.
    - `draft`: make large pictures smaller while they are decoded, to twice what the network takes.
    - `batch`: pictures that run together; on a CPU one at a time is fastest.
    - `shard`: pictures in a part of the dataset.
    - `threads`: cores to use; all by default.
    - `scheduler`: the address of a Dask scheduler, on whose workers the pictures are embedded.
    - `append_model`: give a dataset that is finished, and is one of the same sources, a column of
      this model's vectors, `vector_MODEL_PRECISION`, beside those that it has.
    - `prune`: remove the rows of pictures that are gone; they are kept by default.
    - `force`: replace a dataset of something else.
    - `offline`: never ask the hub.

    **Raises** a `ZooError` or `WeightsError`. A picture that cannot be read is none: it is a row of
    `NAME.errors.parquet` beside the dataset.

    >>> zoo.embed("photographs/", model="artifacts/dinov3_vits16", out="vectors.lance").pictures
    1000
    """
    from weights.progress import Quiet
    from zoo.embedding.embed_pictures import make_dataset

    if min(batch, shard, 1 if threads is None else threads) < 1:
        raise BadRequest("batch, shard and threads are counts: give numbers from 1.")
    others = {"force": force, "prune": prune, "extra columns": bool(extra)}
    if append_model and any(others.values()):
        name = next(name for name in others if others[name])
        raise BadRequest(
            "a model is appended to a dataset as a column of vectors alone: leave out "
            f"{name}, or leave out append_model."
        )
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    how = EmbedRequest(
        tuple(os.fspath(each) for each in several),
        os.fspath(model),
        Path(os.path.abspath(out)),
        precision,
        dtype,
        tuple(extra),
        draft,
        batch,
        shard,
        append_model,
        prune,
    )
    return make_dataset(how, threads, scheduler, force, offline, progress or Quiet())
