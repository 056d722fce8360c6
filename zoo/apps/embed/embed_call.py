"""`zoo.embed`. Libraries are imported when it is called."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from weights.parameters import parameter
from weights.progress import Progress, Quiet
from zoo.apps.embed.requests import SHARD, Dtype, EmbedRequest, EmbedResult, Extra, need_lance
from zoo.common.errors import BadRequest
from zoo.common.options import FORCE, OFFLINE, SEVERAL, Option, argument, documented, flag

SPEED, ROWS_PANEL = "Speed", "The rows of the dataset"


@documented
def embed(
    sources: Annotated[
        str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        argument(
            "SOURCE...",
            "Folders of pictures, lists of paths (.txt), patterns, tar files of WebDataset's or "
            "Parquet files, also as URLs that fsspec reads.",
            command_line_type=list[str],
        ),
    ],
    *,
    model: Annotated[
        str | os.PathLike[str],
        Option(
            "MODEL|FILE|FOLDER",
            "A folder of `zoo build` or `zoo pull`, an .onnx file with its manifest, or the name "
            "of a model, for which a folder is downloaded.",
            command_line_type=str,
        ),
    ],
    out: Annotated[
        str | os.PathLike[str],
        Option("FOLDER", "The folder to write to: NAME.lance.", command_line_type=Path),
    ],
    precision: Annotated[
        str, Option("NAME", "The variant of the folder, such as fp32, fused or int8.")
    ] = "fp32",
    dtype: Annotated[Dtype, Option(None, "The type of the vectors.", ROWS_PANEL)] = "float16",
    extra: Annotated[
        Sequence[Extra],
        Option(
            "COLUMN",
            f"A further column: patches, logits, best (five classes) or thumbnail. {SEVERAL}",
            ROWS_PANEL,
            name="--with",
            command_line_type=list[str],
            several=True,
        ),
    ] = (),
    draft: Annotated[
        bool,
        flag(
            "Resize pictures in one step, though they are much larger than the network's.",
            name="--exact",
            negates=True,
            in_python="Make large pictures smaller while they are decoded, to twice what the "
            "network takes.",
        ),
    ] = True,
    append_model: Annotated[
        bool,
        flag(
            "Give a finished dataset a column of this model's vectors, beside those that it has.",
            ROWS_PANEL,
        ),
    ] = False,
    prune: Annotated[
        bool,
        flag("Remove the rows of pictures that are gone, instead of keeping them.", ROWS_PANEL),
    ] = False,
    force: Annotated[bool, FORCE] = False,
    offline: Annotated[bool, OFFLINE] = False,
    batch: Annotated[
        int, Option("N", "The number of pictures that run together.", SPEED, minimum=1)
    ] = 1,
    shard: Annotated[
        int,
        Option("N", "The number of pictures that are committed together.", SPEED, minimum=1),
    ] = SHARD,
    threads: Annotated[
        int | None,
        Option(
            "N",
            "The number of cores to use.",
            SPEED,
            name="--cores",
            minimum=1,
            default="all that there are",
        ),
    ] = None,
    scheduler: Annotated[
        str | None, Option("ADDRESS", "Do the work on the workers of a Dask cluster.", SPEED)
    ] = None,
    progress: Progress | None = None,
) -> EmbedResult:
    """Make a dataset with a row for each picture, or complete and update an existing one.

    A picture is embedded if it has no row, or if its file has another size or time and another
    sha256 than its row. The vectors of an appended model are in the column
    `vector_MODEL_PRECISION`.

    **Arguments:**

    {options}

    **Raises** a `ZooError` or `WeightsError`. A picture that cannot be read raises nothing; the
    column `error` of its row contains the reason.

    >>> zoo.embed("photographs/", model="artifacts/dinov3_vits16", out="vectors.lance").pictures
    1000
    """
    if min(batch, shard, 1 if threads is None else threads) < 1:
        raise BadRequest("batch, shard and threads are counts: give numbers from 1.")
    excluded = {"force": force, "prune": prune, "extra": bool(extra)}
    if append_model and any(excluded.values()):
        name = next(name for name, is_set in excluded.items() if is_set)
        raise BadRequest(
            "a model is appended to a dataset as a column of vectors alone: leave out "
            f"{parameter(name)}, or leave out {parameter('append_model')}."
        )
    need_lance()
    from zoo.apps.embed.driver import make_dataset

    paths = [sources] if isinstance(sources, str | os.PathLike) else sources
    request = EmbedRequest(
        sources=tuple(os.fspath(path) for path in paths),
        model=os.fspath(model),
        out=Path(os.path.abspath(out)),
        precision=precision,
        dtype=dtype,
        extra=tuple(extra),
        draft=draft,
        append_model=append_model,
        prune=prune,
        force=force,
        offline=offline,
        batch=batch,
        shard=shard,
        threads=threads,
        scheduler=scheduler,
    )
    return make_dataset(request, progress or Quiet())
