"""`zoo search DATASET PICTURE`: the rows of a dataset of vectors that are like something."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.apps.embed.search_request import ASKED, DATASET, SearchRequest
from zoo.cli.command_options import Json, derive_options
from zoo.cli.console import CommandResult, print_picture, progress_bar
from zoo.common.errors import BadRequest
from zoo.common.options import FILE_OUT, FORCE, Option, flag
from zoo.common.terminal import complain

if TYPE_CHECKING:
    from zoo.apps.embed.contact_sheet import SheetCell
    from zoo.apps.embed.near_duplicates import DuplicateGroup
    from zoo.apps.embed.vector_table import VectorTable

ABOVE = Option("COSINE", "With --duplicates: from which cosine on rows are taken for them.", ASKED)
DUPLICATES = flag("Find groups of rows that are nearly the same.", ASKED)
INDEX = flag("Build an index into the dataset, which searches of more than 100,000 rows use.")
PICTURES = Option(
    "FOLDER", "The folder that keys are paths in.", default="the dataset's thumbnails"
)


@derive_options(SearchRequest)
def search_command(
    asked: SearchRequest,
    dataset: Annotated[Path, DATASET],
    duplicates: Annotated[bool, DUPLICATES] = False,
    above: Annotated[float, ABOVE] = 0.95,
    index: Annotated[bool, INDEX] = False,
    pictures: Annotated[Path | None, PICTURES] = None,
    out: Annotated[Path | None, FILE_OUT] = None,
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> int:
    """Find the pictures of a dataset that are like a picture, a text or one of themselves.

    Cosines of vectors tell what is alike. Up to 100,000 rows each is compared; of more, the index
    finds most of the nearest, and says how many.
    """
    tasks: dict[str, object] = {"IMAGE": asked.picture, "--text": asked.text, "--key": asked.key}
    tasks |= {"--duplicates": duplicates or None, "--index": index or None}
    chosen = [name for name, value in tasks.items() if value is not None]
    if len(chosen) != 1:
        raise BadRequest(
            f"got {' and '.join(chosen) or 'nothing'} to search for: give one of an IMAGE, --text, "
            "--key, --duplicates and --index."
        )
    from zoo.apps.embed.index import build_index
    from zoo.apps.embed.vector_table import open_vectors

    table = open_vectors(dataset, asked.vector)
    if index:
        from zoo.cli.tables.found_table import index_blocks

        with progress_bar() as progress:
            built = build_index(table, progress)
        return CommandResult(built, index_blocks).show(json)
    drawn = _SheetOptions(table, pictures, out, force, json)
    drawn.check()
    if duplicates:
        return _duplicates(drawn, above, asked.where, asked.count)
    return _rows(drawn, asked)


def _rows(drawn: "_SheetOptions", asked: SearchRequest) -> int:
    """Search, and print and draw what was found."""
    from zoo.apps.embed.contact_sheet import SheetCell
    from zoo.apps.embed.search import search_table, told_index
    from zoo.cli.tables.found_table import found_blocks

    results = search_table(drawn.table, asked)
    if remark := told_index(drawn.table):
        complain(remark)
    drawn.draw([[SheetCell(each.row, each.cosine) for each in results]])
    found = CommandResult(results, found_blocks, lambda rows: [row._asdict() for row in rows])
    return found.show(drawn.json)


def _duplicates(drawn: "_SheetOptions", above: float, where: str | None, count: int | None) -> int:
    """Find groups of duplicates, and print and draw them."""
    from zoo.apps.embed.contact_sheet import SheetCell
    from zoo.apps.embed.near_duplicates import find_duplicates
    from zoo.cli.tables.found_table import group_blocks

    if not 0 < above <= 1:
        raise BadRequest(f"--above {above} is no cosine of duplicates: write one such as 0.95.")
    if count is not None and count < 1:
        raise BadRequest(f"--count {count} is no number of groups: ask for one at least.")
    with progress_bar() as progress:
        groups = find_duplicates(drawn.table, above, where, progress)
    shown = groups[:count]
    drawn.draw([list(map(SheetCell, group.rows, group.cosines)) for group in shown])
    named = [_named(drawn.table, group) for group in shown]
    return CommandResult(named, lambda each: group_blocks(each, len(groups))).show(drawn.json)


def _named(table: "VectorTable", group: "DuplicateGroup") -> dict[str, list[dict[str, object]]]:
    """A group with the keys of its rows."""
    keys = (each["key"] for each in table.take(group.rows, ("key",)))
    members = zip(group.rows, keys, group.cosines, strict=True)
    return {"rows": [{"key": key, "cosine": near, "row": row} for row, key, near in members]}


@dataclass(frozen=True)
class _SheetOptions:
    """Where pictures of rows come from, and where a sheet of them goes."""

    table: "VectorTable"
    pictures: Path | None
    out: Path | None
    force: bool
    json: bool

    def check(self) -> None:
        """**Raises** a `ZooError` where a sheet is asked for that cannot be drawn or written."""
        from zoo.apps.embed.contact_sheet import check_pictures
        from zoo.apps.show.save import check_place

        if self.out is not None:
            check_place("--out", self.out, replace=self.force)
        if self.out is not None or self.pictures is not None:
            check_pictures(self.table, self.pictures)

    def draw(self, rows: "Sequence[Sequence[SheetCell]]") -> None:
        """Write a contact sheet if one is asked for, and show it in a terminal that can."""
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
