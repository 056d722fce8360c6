"""`zoo search DATASET IMAGE`: find similar rows in a dataset of vectors."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from zoo.apps.embed.calls import need_lance
from zoo.apps.embed.requests import DATASET, QUERY_PANEL, SearchRequest
from zoo.cli.command_options import Json, derive_options
from zoo.cli.console import CommandResult, command_progress, print_picture
from zoo.common.errors import BadRequest
from zoo.common.options import FILE_OUT, FORCE, Option, flag
from zoo.common.terminal import print_stderr

if TYPE_CHECKING:
    from zoo.apps.embed.contact_sheet import Cells
    from zoo.apps.embed.vector_table import VectorTable

ABOVE = Option("COSINE", "With --duplicates: the least cosine of two duplicates.", QUERY_PANEL)
DUPLICATES = flag("Find groups of rows that are nearly equal.", QUERY_PANEL)
INDEX = flag("Add an index to the dataset, which speeds up searches of more than 100,000 rows.")
PICTURES = Option(
    "FOLDER",
    "The folder that the keys of the rows are relative to.",
    default="the dataset's thumbnails",
)


@derive_options(SearchRequest)
def search_command(
    request: SearchRequest,
    dataset: Annotated[Path, DATASET],
    duplicates: Annotated[bool, DUPLICATES] = False,
    above: Annotated[float, ABOVE] = 0.95,
    index: Annotated[bool, INDEX] = False,
    pictures: Annotated[Path | None, PICTURES] = None,
    out: Annotated[Path | None, FILE_OUT] = None,
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> int:
    """Find the pictures of a dataset that are similar to a picture, a text or a row of the dataset.

    The similarity of two pictures is the cosine of their vectors. If the dataset has at most
    100,000 rows, all rows are compared. A larger dataset is searched with its index, which may not
    find all of the nearest rows. `--index` builds the index and prints the share that it finds.
    """
    queries = {"IMAGE": request.picture, "--text": request.text, "--key": request.key}
    names = [name for name, query in queries.items() if query is not None]
    names += ["--duplicates"] * duplicates + ["--index"] * index
    if len(names) != 1:
        raise BadRequest(
            f"got {' and '.join(names) or 'nothing'} to search for: give exactly one of "
            "IMAGE, --text, --key, --duplicates and --index."
        )
    need_lance()
    from zoo.apps.embed.vector_table import open_vectors

    table = open_vectors(dataset, request.vector)
    if index:
        return _build_index(table).show(json)
    _check_sheet(table, pictures, out, force)
    if duplicates:
        result, groups = _find_duplicates(table, request, above)
    else:
        result, groups = _find_rows(table, request)
    _show_sheet(table, groups, pictures, out, json)
    return result.show(json)


def _build_index(table: "VectorTable") -> CommandResult[Any]:
    """Build the index of a dataset, and return its facts."""
    from zoo.apps.embed.index import build_index
    from zoo.cli.tables.found_table import index_blocks

    with command_progress() as progress:
        return CommandResult(build_index(table, progress), index_blocks)


def _find_rows(
    table: "VectorTable", request: SearchRequest
) -> tuple[CommandResult[Any], "Sequence[Cells]"]:
    """Search for similar rows. Return the result of the command, and the cells of a contact sheet.

    If the use of an index is worth a remark, it is printed on stderr.
    """
    from zoo.apps.embed.search import describe_index_use, search_table
    from zoo.cli.tables.found_table import found_blocks

    found = search_table(table, request)
    if remark := describe_index_use(table):
        print_stderr(remark)
    cells = [(match.row, match.cosine) for match in found]
    return CommandResult(found, found_blocks, lambda rows: [row._asdict() for row in rows]), [cells]


def _find_duplicates(
    table: "VectorTable", request: SearchRequest, above: float
) -> tuple[CommandResult[Any], "Sequence[Cells]"]:
    """Find groups of duplicates. Return the result of the command, and the cells of a contact
    sheet.

    Both contain the first `request.count` groups; all if it is None. `above` is the least cosine of
    two duplicates. **Raises** `BadRequest` for an invalid `above` or count.
    """
    from zoo.apps.embed.search import find_duplicates
    from zoo.cli.tables.found_table import group_blocks

    if not 0 < above <= 1:
        raise BadRequest(
            f"--above {above} is no cosine above 0 and at most 1: write 0.95, for example."
        )
    if request.count is not None and request.count < 1:
        raise BadRequest(f"--count {request.count} is no number of groups: write 1 or more.")
    with command_progress() as progress:
        groups = find_duplicates(table, above, request.where, progress)
    listed = groups[: request.count]
    cells = [tuple(zip(group.rows, group.cosines, strict=True)) for group in listed]
    records = [_group_record(table, group) for group in cells]
    return CommandResult(records, lambda records: group_blocks(records, len(groups))), cells


def _group_record(table: "VectorTable", group: "Cells") -> dict[str, list[dict[str, object]]]:
    """Return a group of duplicates for JSON: the key, the position and the cosine of each row."""
    keys = table.take([row for row, _ in group], ("key",))
    return {
        "rows": [
            record | {"cosine": cosine, "row": row}
            for record, (row, cosine) in zip(keys, group, strict=True)
        ]
    }


def _check_sheet(
    table: "VectorTable", pictures: Path | None, out: Path | None, force: bool
) -> None:
    """Check that a contact sheet can be drawn and written, if one was requested.

    **Raises** a `ZooError`.
    """
    from zoo.apps.embed.contact_sheet import check_pictures
    from zoo.apps.show.save import check_picture_path

    if out is not None:
        check_picture_path("--out", out, replace=force)
    if out is not None or pictures is not None:
        check_pictures(table, pictures)


def _show_sheet(
    table: "VectorTable",
    groups: "Sequence[Cells]",
    pictures: Path | None,
    out: Path | None,
    json: bool,
) -> None:
    """Write a contact sheet if `out` is given, and show it if stdout is a terminal.

    Nothing is shown with `json`, or if neither `pictures` nor thumbnails of the dataset are
    available. Nothing is written or shown if no row was found.
    """
    from zoo.apps.embed.contact_sheet import contact_sheet
    from zoo.apps.show.save import save_picture
    from zoo.common.progress import is_terminal

    has_pictures = pictures is not None or "thumbnail" in table.columns
    on_screen = has_pictures and not json and is_terminal(sys.stdout)
    if not any(groups) or not (on_screen or out is not None):
        return
    sheet = contact_sheet(table, groups, pictures)
    if out is not None:
        save_picture(sheet, out)
    if on_screen:
        print_picture(sheet)
