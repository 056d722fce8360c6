"""`zoo.embed`, which imports what it needs when it is called."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from weights.parameters import parameter
from weights.progress import Progress, Quiet
from zoo.common.errors import BadRequest
from zoo.common.options import FORCE, OFFLINE, SEVERAL, Option, argument, documented, flag

Dtype = Literal["float16", "float32"]

Extra = Literal["patches", "logits", "best", "thumbnail"]

VECTOR = "vector"
"""Column of the vectors of the model that the dataset was made with."""

SHARD = 1024
"""Pictures of a chunk, which is computed again when a process is killed."""


@dataclass(frozen=True)
class EmbedResult:
    """Result of a run over pictures.

    `pictures` are the rows with a vector, and `errors` those of pictures that cannot be read.
    `computed` pictures were embedded in this run: `added` had no row before it, and `again` had
    other bytes. `kept` rows are as they were, and `gone` are of pictures that are missing from the
    sources; they stay unless `pruned`. `passed` counts files that are no pictures by their suffix.
    `seconds` are those of threads by stage, `cores` the number of busy cores on average, and `wall`
    the seconds of the run.
    """

    dataset: Path
    pictures: int
    errors: int
    computed: int = 0
    kept: int = 0
    added: int = 0
    again: int = 0
    gone: int = 0
    pruned: bool = False
    passed: dict[str, int] = field(default_factory=dict)
    wall: float = 0.0
    cores: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Pictures a second."""
        return self.computed / self.wall if self.wall else 0.0


@dataclass(frozen=True)
class EmbedRequest:
    """Request as in `zoo.embed`: the pictures, the network, the dataset, and its columns."""

    sources: tuple[str, ...]
    model: str
    out: Path
    precision: str
    dtype: Dtype
    extra: tuple[Extra, ...]
    draft: bool
    batch: int
    shard: int
    append_model: bool = False
    prune: bool = False


SPEED, ROWS_PANEL = "Speed", "The rows of the dataset"


@documented
def embed(
    sources: Annotated[
        str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        argument(
            "SOURCE...",
            "Folders of pictures, lists of paths (.txt), patterns, tar files of WebDataset's or "
            "Parquet files, also as URLs that fsspec reads.",
            given=list[str],
        ),
    ],
    *,
    model: Annotated[
        str | os.PathLike[str],
        Option(
            "MODEL|FILE|FOLDER",
            "A folder of `zoo build` or `zoo pull`, an .onnx file with its manifest, or the name "
            "of a model, for which a folder is downloaded.",
            given=str,
        ),
    ],
    out: Annotated[
        str | os.PathLike[str],
        Option("FOLDER", "The folder to write to: NAME.lance.", given=Path),
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
            given=list[str],
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
        int, Option("N", "The number of pictures that run together.", SPEED, least=1)
    ] = 1,
    shard: Annotated[
        int,
        Option("N", "The number of pictures that are committed together.", SPEED, least=1),
    ] = SHARD,
    threads: Annotated[
        int | None,
        Option(
            "N",
            "The number of cores to use.",
            SPEED,
            name="--cores",
            least=1,
            default="all that there are",
        ),
    ] = None,
    scheduler: Annotated[
        str | None, Option("ADDRESS", "Do the work on the workers of a Dask cluster.", SPEED)
    ] = None,
    progress: Progress | None = None,
) -> EmbedResult:
    """Make a dataset with a row for each picture, or complete one that was begun.

    Only pictures that have no row, or have changed since, are embedded: a file of another size or
    time is read, and its sha256 decides. The column of a model that is appended is called
    `vector_MODEL_PRECISION`.

    **Arguments:**

    {options}

    **Raises** a `ZooError` or `WeightsError`. A picture that cannot be read raises nothing: the
    column `error` of its row has the reason.

    >>> zoo.embed("photographs/", model="artifacts/dinov3_vits16", out="vectors.lance").pictures
    1000
    """
    from zoo.apps.embed.driver import make_dataset

    if min(batch, shard, 1 if threads is None else threads) < 1:
        raise BadRequest("batch, shard and threads are counts: give numbers from 1.")
    others = {"force": force, "prune": prune, "extra": bool(extra)}
    if append_model and any(others.values()):
        name = next(name for name in others if others[name])
        raise BadRequest(
            "a model is appended to a dataset as a column of vectors alone: leave out "
            f"{parameter(name)}, or leave out {parameter('append_model')}."
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
