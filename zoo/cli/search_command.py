"""`zoo search DATASET IMAGE`: find similar rows in a dataset of vectors."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.apps.embed.search_call import ASKED, DATASET, SearchRequest
from zoo.cli.command_options import Json, derive_options
from zoo.cli.console import CommandResult, print_picture, progress_bar
from zoo.common.errors import BadRequest
from zoo.common.options import FILE_OUT, FORCE, Option, flag
from zoo.common.terminal import complain

if TYPE_CHECKING:
    from zoo.apps.embed.contact_sheet import SheetCell
    from zoo.apps.embed.near_duplicates import DuplicateGroup
    from zoo.apps.embed.vector_table import VectorTable

ABOVE = Option("COSINE", "With --duplicates: the least cosine of two duplicates.", ASKED)
DUPLICATES = flag("Find groups of rows that are nearly equal.", ASKED)
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
    targets: dict[str, object] = {
        "IMAGE": request.picture,
        "--text": request.text,
        "--key": request.key,
    }
    targets |= {"--duplicates": duplicates or None, "--index": index or None}
    given_targets = [name for name, value in targets.items() if value is not None]
    if len(given_targets) != 1:
        raise BadRequest(
            f"got {' and '.join(given_targets) or 'nothing'} to search for: give exactly one of "
            "IMAGE, --text, --key, --duplicates and --index."
        )
    from zoo.apps.embed.index import build_index
    from zoo.apps.embed.vector_table import open_vectors

    table = open_vectors(dataset, request.vector)
    if index:
        from zoo.cli.tables.found_table import index_blocks

        with progress_bar() as progress:
            index_facts = build_index(table, progress)
        return CommandResult(index_facts, index_blocks).show(json)
    sheet_options = _SheetOptions(table, pictures, out, force, json)
    sheet_options.check()
    if duplicates:
        return _search_duplicates(sheet_options, above, request.where, request.count)
    return _search_rows(sheet_options, request)


def _search_rows(sheet_options: "_SheetOptions", request: SearchRequest) -> int:
    """Search for similar rows, and print and draw them."""
    from zoo.apps.embed.contact_sheet import SheetCell
    from zoo.apps.embed.search import search_table, told_index
    from zoo.cli.tables.found_table import found_blocks

    results = search_table(sheet_options.table, request)
    if remark := told_index(sheet_options.table):
        complain(remark)
    sheet_options.draw([[SheetCell(match.row, match.cosine) for match in results]])
    result = CommandResult(results, found_blocks, lambda rows: [row._asdict() for row in rows])
    return result.show(sheet_options.json)


def _search_duplicates(
    sheet_options: "_SheetOptions", above: float, where: str | None, count: int | None
) -> int:
    """Find groups of duplicates, and print and draw them."""
    from zoo.apps.embed.contact_sheet import SheetCell
    from zoo.apps.embed.near_duplicates import find_duplicates
    from zoo.cli.tables.found_table import group_blocks

    if not 0 < above <= 1:
        raise BadRequest(
            f"--above {above} is no cosine above 0 and at most 1: write 0.95, for example."
        )
    if count is not None and count < 1:
        raise BadRequest(f"--count {count} is no number of groups: write 1 or more.")
    with progress_bar() as progress:
        groups = find_duplicates(sheet_options.table, above, where, progress)
    listed_groups = groups[:count]
    sheet_options.draw([list(map(SheetCell, group.rows, group.cosines)) for group in listed_groups])
    records = [_group_record(sheet_options.table, group) for group in listed_groups]
    return CommandResult(records, lambda records: group_blocks(records, len(groups))).show(
        sheet_options.json
    )


def _group_record(
    table: "VectorTable", group: "DuplicateGroup"
) -> dict[str, list[dict[str, object]]]:
    """Return a group for JSON, with the keys of its rows."""
    keys = (row["key"] for row in table.take(group.rows, ("key",)))
    members = zip(group.rows, keys, group.cosines, strict=True)
    return {"rows": [{"key": key, "cosine": cosine, "row": row} for row, key, cosine in members]}


@dataclass(frozen=True)
class _SheetOptions:
    """The dataset, the folder of its pictures and the output file of a contact sheet."""

    table: "VectorTable"
    pictures: Path | None
    out: Path | None
    force: bool
    json: bool

    def check(self) -> None:
        """Check that a contact sheet can be drawn and written, if one was requested.

        **Raises** a `ZooError`.
        """
        from zoo.apps.embed.contact_sheet import check_pictures
        from zoo.apps.show.save import check_picture_path

        if self.out is not None:
            check_picture_path("--out", self.out, replace=self.force)
        if self.out is not None or self.pictures is not None:
            check_pictures(self.table, self.pictures)

    def draw(self, rows: "Sequence[Sequence[SheetCell]]") -> None:
        """Write a contact sheet if one is requested, and show it if stdout is a terminal.

        Each of `rows` becomes a row of the sheet.
        """
        from zoo.apps.embed.contact_sheet import contact_sheet
        from zoo.apps.show.save import save_picture
        from zoo.common.progress import is_terminal

        has_pictures = self.pictures is not None or "thumbnail" in self.table.columns
        on_screen = has_pictures and not self.json and is_terminal(sys.stdout)
        if not any(rows) or not (on_screen or self.out is not None):
            return
        sheet = contact_sheet(self.table, rows, self.pictures)
        if self.out is not None:
            save_picture(sheet, self.out)
        if on_screen:
            print_picture(sheet)
