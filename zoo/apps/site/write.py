"""Write a site: all files into a hidden folder, which then replaces the old site in one step."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

from pydantic import ValidationError

from weights.files import PIECE
from weights.opening import as_utf8, open_inside, read_at_most
from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, TRANSFORMERS_JS, write_package
from zoo.apps.site.catalogue import FORMAT, Catalogue, build_catalogue
from zoo.apps.site.folders import BuiltFolder, read_folders
from zoo.apps.site.pages import ASSETS, MODELS, RUNTIME, THUMBS, render_pages
from zoo.apps.site.searchable import SearchableDataset, read_searchable, write_searchable
from zoo.apps.site.thumbnails import draw_thumbnail, write_thumbnail
from zoo.artifacts.folder_check import REBUILD_ADVICE
from zoo.artifacts.read import MAX_MANIFEST_BYTES, to_text
from zoo.artifacts.schema import MANIFEST
from zoo.common.errors import BadFile, BadOutput
from zoo.common.fields import Model
from zoo.common.staging import (
    locked_output,
    replace_folder,
    restore_folder,
    staged,
    translate_write_errors,
    write_text,
)

CATALOGUE = "catalogue.json"
"""The file with all numbers of a site and the names of its files."""


@dataclass(frozen=True)
class Site:
    """The result of writing a site.

    - `folder`: the folder of the site.
    - `catalogue`: the facts about its ONNX files.
    - `own_bytes`: the size of its pages, styles, scripts and thumbnails.
    - `bytes`: the size of all its files.
    """

    folder: Path
    catalogue: Catalogue
    own_bytes: int
    bytes: int


def write_site(
    folders: Sequence[Path],
    out: Path,
    runtime: Path | None,
    force: bool,
    progress: Progress,
    transformers: Path | None = None,
    dataset: Path | None = None,
) -> Site:
    """Write a static site for built folders.

    The site replaces `out` in one step. If anything fails, `out` is not changed.

    **Arguments**

    - `folders`: the built folders.
    - `out`: the folder of the site.
    - `runtime`, `transformers`: copies of the packages onnxruntime-web and
      @huggingface/transformers. If they are None, they are downloaded with npm.
    - `force`: whether an earlier site at `out` may be replaced.
    - `dataset`: a dataset of vectors for the search page, which one of the models must have
      computed. None means no search page.

    **Raises** a `ZooError`.
    """
    check_replaceable(out, force)
    models = read_folders(folders, progress)
    searched = None if dataset is None else read_searchable(dataset, models)
    with staged(out.parent) as stage, locked_output(out, progress), translate_write_errors(out):
        restore_folder(out)
        new = stage / "new"
        new.mkdir()
        write_package(TRANSFORMERS_JS, transformers, new / RUNTIME, stage, progress)
        write_package(ONNXRUNTIME_WEB, runtime, new / RUNTIME, stage, progress)
        table = build_catalogue(models, progress)
        own_bytes = write_own_files(new, models, table, searched)
        if searched is not None:
            write_searchable(searched, new, progress)
        progress.stage("copying models")
        for built in models:
            copy_model(built, new / MODELS / built.entry.name)
        paths = (path for path in new.rglob("*") if path.is_file())
        names = sorted(path.relative_to(new).as_posix() for path in paths)
        record = {"format": FORMAT, **asdict(table), "files": names}
        write_text(new / CATALOGUE, to_text(record))
        size = sum((new / name).stat().st_size for name in [*names, CATALOGUE])
        check_replaceable(out, force)
        replace_folder(new, out)
    return Site(out, table, own_bytes, size)


def check_replaceable(out: Path, force: bool) -> None:
    """Check that `out` does not exist, is empty, or is an earlier site that may be replaced.

    An earlier site is recognised by its catalogue, and must have no other files. It may be replaced
    if `force` is set.

    **Raises** `BadOutput`, also if `out` is a symbolic link or a file, or contains the current
    folder.
    """
    if Path.cwd().is_relative_to(os.path.realpath(out)):  # does not fail for a link to itself
        raise BadOutput(
            f"{out} contains the current folder, which would be replaced: name another folder with "
            f"{parameter('out')}."
        )
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise BadOutput(f"{out} is no folder: name a folder with {parameter('out')}.")
    files_found = (path for path in out.rglob("*") if path.is_symlink() or not path.is_dir())
    existing = {path.relative_to(out).as_posix() for path in files_found}
    if not existing:
        return
    allowed = _earlier_files(out)
    if unknown := sorted(existing - allowed):
        examples = ", ".join([*unknown[:3], *["…"] * (len(unknown) > 3)])
        raise BadOutput(
            f"{out} has files that belong to no site ({examples}): name another folder with "
            f"{parameter('out')}."
        )
    if not force:
        raise BadOutput(f"{out} exists already: add {parameter('force')} to replace it.")


def _earlier_files(out: Path) -> set[str]:
    """Return the names of the files of the site at `out`, or an empty set if it is no site."""
    try:
        content = as_utf8(read_at_most(out / CATALOGUE, MAX_MANIFEST_BYTES))
        record = EarlierSite.model_validate_json(content)
    except (OSError, ValidationError):
        return set()
    return {CATALOGUE, *record.files} if record.format == FORMAT else set()


class EarlierSite(Model):
    """The fields that are read from the catalogue of an earlier site."""

    format: str
    files: tuple[str, ...]


def write_own_files(
    site: Path, models: Sequence[BuiltFolder], table: Catalogue, searched: SearchableDataset | None
) -> int:
    """Write pages, styles, scripts and thumbnails into the folder of a site.

    Return their size in bytes. The JavaScript libraries must be there already.

    **Arguments**

    - `site`: the folder of the site.
    - `models`: the built folders.
    - `table`: the facts about all ONNX files.
    - `searched`: the dataset of the search page, or None.
    """
    runtime_bytes = sum(path.stat().st_size for path in (site / RUNTIME).iterdir())
    thumbnails = {built.entry.name: image for built in models if (image := draw_thumbnail(built))}
    (site / THUMBS).mkdir()
    for name, thumbnail in thumbnails.items():
        write_thumbnail(thumbnail, site / THUMBS / f"{name}.png")
    captions = {name: thumbnail.caption for name, thumbnail in thumbnails.items()}
    for name, text in render_pages(models, table, runtime_bytes, searched, captions).items():
        write_text(site / name, text)
    with as_file(files("zoo.apps.site") / ASSETS) as assets:
        shutil.copytree(assets, site / ASSETS)
    with as_file(files("zoo") / "data" / "licences" / "apache-2.0.txt") as licence:
        shutil.copyfile(licence, site / ASSETS / "transformers.txt")
    paths = [*site.glob("*.html"), *(site / ASSETS).iterdir(), *(site / THUMBS).iterdir()]
    return sum(path.stat().st_size for path in paths)


def copy_model(built: BuiltFolder, folder: Path) -> None:
    """Copy the files of a built folder that exist into another folder, with the manifest.

    **Raises** `BadFile` if a file has changed since it was checked.
    """
    folder.mkdir(parents=True)
    write_text(folder / MANIFEST, to_text(built.manifest))
    for file in built.files:
        target = folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_inside(built.folder, file.name) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, PIECE)
        if not file.is_intact_in(folder):
            raise BadFile(
                f"{built.folder / file.name} was changed while it was read: {REBUILD_ADVICE}."
            )
