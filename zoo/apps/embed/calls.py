"""`zoo.embed` and `zoo.search`. A call imports the libraries for datasets."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from weights.parameters import parameter
from weights.progress import Progress, Quiet
from zoo.apps.embed.requests import (
    COLUMN,
    COUNT,
    DATASET,
    MODEL,
    NUMBER,
    PICTURE,
    ROW_KEY,
    SHARD,
    TEXT,
    VECTOR,
    WHERE,
    Dtype,
    EmbedRequest,
    EmbedResult,
    Extra,
    FoundRow,
    SearchRequest,
)
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.common.options import FORCE, OFFLINE, SEVERAL, Option, argument, documented, flag

if TYPE_CHECKING:
    from zoo.images.pictures import Picture

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


@documented
def search(
    dataset: Annotated[str | os.PathLike[str], DATASET],
    picture: Annotated["Picture | None", PICTURE] = None,
    *,
    text: Annotated[str | None, TEXT] = None,
    key: Annotated[str | None, ROW_KEY] = None,
    where: Annotated[str | None, WHERE] = None,
    count: Annotated[int, NUMBER] = COUNT,
    vector: Annotated[str, COLUMN] = VECTOR,
    model: Annotated[str | os.PathLike[str] | None, MODEL] = None,
) -> list[FoundRow]:
    """Return the rows of a dataset of `zoo embed` that are most similar to a query, best first.

    The query is a picture, a text or the key of a row. A row that is the query is not returned. Up
    to 100,000 rows are all compared. A larger dataset is searched with its index, if `zoo search
    --index` has built one, which may not find all of the nearest rows.

    **Arguments:**

    {options}

    **Raises** a `ZooError`, also if `model` did not make the vectors of the dataset.

    >>> zoo.search("cats.lance", "cat.png")[0].key
    'cat.png'
    """
    need_lance()
    from zoo.apps.embed.search import search_table
    from zoo.apps.embed.vector_table import open_vectors

    model_path = None if model is None else Path(model)
    request = SearchRequest(picture, text, key, where, count, vector, model_path)
    return search_table(open_vectors(Path(dataset), vector), request)


def need_lance() -> None:
    """Check that the libraries for datasets are installed, and limit Lance's log to errors.

    It is called before modules are imported that need these libraries. **Raises**
    `MissingLibrary`.
    """
    os.environ.setdefault("LANCE_LOG", "error")
    for library in ("fsspec", "pyarrow", "lance"):
        if find_spec(library) is None:
            raise MissingLibrary(
                f"{library} is not installed: `pip install fsspec pyarrow pylance`."
            )
