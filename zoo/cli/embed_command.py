"""`zoo embed SOURCE…`: a dataset with a vector of every picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weights.terminal import say
from zoo.cli import options
from zoo.cli.console import print_result, progress_bar
from zoo.embedding.embed_call import embed
from zoo.embedding.embed_request import SHARD, Dtype
from zoo.errors import FAILED_CHECK

if TYPE_CHECKING:
    from zoo.embedding.embed_request import Embedded

ENDINGS = 5
"""Kinds of files that are named where they are passed over."""

SPEED, ROWS = "Speed", "The rows of the dataset"
SOURCES = typer.Argument(
    metavar="SOURCE...",
    help="Folders of pictures, lists of paths (.txt), patterns, tar files of WebDataset's or "
    "Parquet files, also as URLs that fsspec reads.",
)
MODEL = options.value(
    "MODEL|FILE|FOLDER",
    "A folder of `zoo build` or `zoo pull`, an .onnx file with its manifest, or the name of a "
    "model, for which a folder is downloaded.",
)
OUT = options.value("FOLDER", "The folder to write to: NAME.lance, or NAME.parquet.")
PRECISION = options.value("NAME", "The variant of the folder, such as fp32, fused or int8.")
DTYPE = options.value(None, "The type of the vectors.", ROWS)
EXTRA = typer.Option(
    "--with",
    metavar="COLUMN",
    help=f"A further column: patches, logits, best (five classes) or thumbnail. {options.SEVERAL}",
    callback=options.split_commas,
    rich_help_panel=ROWS,
)
EXACT = options.flag(
    "--exact", "Resize pictures in one step, though they are much larger than the network's."
)
APPEND = options.flag(
    "--append-model",
    "Give a finished dataset a column of this model's vectors, beside those that it has.",
    ROWS,
)
PRUNE = options.flag(
    "--prune", "Remove the rows of pictures that are gone, instead of keeping them.", ROWS
)
BATCH = options.value("N", "The number of pictures that run together.", SPEED, min=1)
PICTURES = options.value("N", "The number of pictures in a part of the dataset.", SPEED, min=1)
CORES = options.value(
    "N", "The number of cores to use.", SPEED, min=1, show_default="all that there are"
)


def embed_command(
    sources: Annotated[list[str], SOURCES],
    model: Annotated[str, MODEL],
    out: Annotated[Path, OUT],
    precision: Annotated[str, PRECISION] = "fp32",
    dtype: Annotated[Dtype, DTYPE] = "float16",
    extra: Annotated[list[str] | None, EXTRA] = None,
    exact: Annotated[bool, EXACT] = False,
    append_model: Annotated[bool, APPEND] = False,
    prune: Annotated[bool, PRUNE] = False,
    force: options.Force = False,
    offline: options.Offline = False,
    batch: Annotated[int, BATCH] = 1,
    shard: Annotated[int, PICTURES] = SHARD,
    cores: Annotated[int | None, CORES] = None,
    scheduler: Annotated[str | None, options.scheduler(SPEED)] = None,
    json: options.Json = False,
) -> int:
    """Make a dataset with a vector of every picture: a table of Lance or Parquet.

    A run that is stopped goes on where it was when the same command is given again. When it is
    given after the pictures have changed, those that are new or others are computed, and no more.
    Pictures that cannot be read are listed in NAME.errors.parquet, and the exit code is 1.
    """
    from zoo.embedding.row_columns import read_extra

    with progress_bar() as progress:
        found = embed(
            sources,
            model=model,
            out=out,
            precision=precision,
            dtype=dtype,
            extra=read_extra(extra or ()),
            draft=not exact,
            batch=batch,
            shard=shard,
            threads=cores,
            scheduler=scheduler,
            append_model=append_model,
            prune=prune,
            force=force,
            offline=offline,
            progress=progress,
        )
    print_result(json, found, _show, lambda done: vars(done) | {"rate": done.rate})
    return FAILED_CHECK if found.errors else 0


def _show(found: Embedded) -> None:
    """How many pictures, how fast, and where the time went."""
    from zoo.embedding.embed_pictures import errors_path

    say(f"{found.dataset}: {found.pictures:,} pictures")
    if found.computed < found.pictures + found.errors or found.gone:
        say(_changes(found))
    if found.passed:
        endings = sorted(found.passed.items(), key=lambda each: -each[1])
        named = ", ".join(f"{count:,} {ending}" for ending, count in endings[:ENDINGS])
        say(
            f"passed over, as no pictures by their names: {named}{', …' * (len(endings) > ENDINGS)}"
        )
    if found.computed:
        total = sum(found.seconds.values()) or 1.0
        shares = (f"{name} {seconds / total:.0%}" for name, seconds in found.seconds.items())
        say(
            f"{found.computed:,} of them now: {found.rate:,.1f} a second, {found.cores:.1f} cores "
            f"busy ({', '.join(shares)})"
        )
    if found.errors:
        say(f"{found.errors:,} could not be read: {errors_path(found.dataset)} says why")


def _changes(found: Embedded) -> str:
    """What has become of the rows that there were."""
    kept = "removed" if found.pruned else "kept, unless you say --prune"
    gone = f"{found.gone:,} gone ({kept})" if found.gone else "none gone"
    return (
        f"{found.kept:,} rows are as they were, {found.added:,} of new pictures were added, "
        f"{found.again:,} of changed ones computed again, {gone}"
    )
