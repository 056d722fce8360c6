"""Writing a site: all of it in a hidden folder first, then in one step in its place."""

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
from zoo.apps.site.catalogue import FORMAT, Catalogue, catalogue
from zoo.apps.site.folders import BuiltFolder, read_all
from zoo.apps.site.pages import ASSETS, MODELS, RUNTIME, THUMBS, pages
from zoo.apps.site.searchable import Searchable, read_searchable, write_searchable
from zoo.apps.site.thumbnails import draw_thumbnail, write_thumbnail
from zoo.artifacts.folder_check import REBUILD_ADVICE
from zoo.artifacts.read import MAX_MANIFEST_BYTES, to_text
from zoo.artifacts.schema import MANIFEST
from zoo.common.errors import BadFile, BadOutput
from zoo.common.fields import Model
from zoo.common.staging import (
    locked_output,
    put_back,
    replace_folder,
    staged,
    write_text,
    writing,
)

CATALOGUE = "catalogue.json"
"""All numbers of a site, and the names of its files."""


@dataclass(frozen=True)
class Site:
    """Result of writing a site. `own_bytes` are those of pages, styles and programs."""

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
    """Write the site of some folders, or leave `out` as it was. **Raises** a `ZooError`.

    **Arguments:** `runtime` and `transformers` are copies of the packages onnxruntime-web and
    @huggingface/transformers, which npm is asked for if they are None. `dataset` is one of vectors
    that a model of the folders made, which has a page of its own.
    """
    refuse_strangers(out, force)
    models = read_all(folders, progress)
    searched = None if dataset is None else read_searchable(dataset, models)
    with staged(out.parent) as stage, locked_output(out, progress), writing(out):
        put_back(out)
        new = stage / "new"
        new.mkdir()
        write_package(TRANSFORMERS_JS, transformers, new / RUNTIME, stage, progress)
        write_package(ONNXRUNTIME_WEB, runtime, new / RUNTIME, stage, progress)
        table = catalogue(models, progress)
        own = write_own(new, models, table, searched)
        if searched is not None:
            write_searchable(searched, new, progress)
        progress.stage("copying models")
        for built in models:
            copy_model(built, new / MODELS / built.entry.name)
        made = (path for path in new.rglob("*") if path.is_file())
        names = sorted(path.relative_to(new).as_posix() for path in made)
        record = {"format": FORMAT, **asdict(table), "files": names}
        write_text(new / CATALOGUE, to_text(record))
        size = sum((new / name).stat().st_size for name in [*names, CATALOGUE])
        refuse_strangers(out, force)
        replace_folder(new, out)
    return Site(out, table, own, size)


def refuse_strangers(out: Path, force: bool) -> None:
    """**Raises** `BadOutput` where something is that must not be replaced."""
    if Path.cwd().is_relative_to(os.path.realpath(out)):  # of a link to itself, too
        raise BadOutput(
            f"{out} holds the folder that this command works in, which would be replaced: name "
            f"another one with {parameter('out')}."
        )
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise BadOutput(f"{out} is no folder: name another one with {parameter('out')}.")
    places = (path for path in out.rglob("*") if path.is_symlink() or not path.is_dir())
    there = {path.relative_to(out).as_posix() for path in places}
    if not there:
        return
    listed = _listed(out)
    if strange := sorted(there - listed):
        shown = ", ".join([*strange[:3], *["…"] * (len(strange) > 3)])
        raise BadOutput(
            f"{out} has files that are of no site ({shown}): name another folder with "
            f"{parameter('out')}."
        )
    if not force:
        raise BadOutput(f"{out} is there already: add {parameter('force')} to replace it.")


def _listed(out: Path) -> set[str]:
    """The names of an earlier site's files; none if it is no site."""
    try:
        content = as_utf8(read_at_most(out / CATALOGUE, MAX_MANIFEST_BYTES))
        record = EarlierSite.model_validate_json(content)
    except (OSError, ValidationError):
        return set()
    return {CATALOGUE, *record.files} if record.format == FORMAT else set()


class EarlierSite(Model):
    """What is read of the catalogue of a site that may be replaced."""

    format: str
    files: tuple[str, ...]


def write_own(
    site: Path, models: Sequence[BuiltFolder], table: Catalogue, searched: Searchable | None
) -> int:
    """Write pages, styles, programs and small pictures; how many bytes those are."""
    runtime_bytes = sum(path.stat().st_size for path in (site / RUNTIME).iterdir())
    drawn = {built.entry.name: small for built in models if (small := draw_thumbnail(built))}
    (site / THUMBS).mkdir()
    for name, small in drawn.items():
        write_thumbnail(small, site / THUMBS / f"{name}.png")
    captions = {name: small.told for name, small in drawn.items()}
    for name, text in pages(models, table, runtime_bytes, searched, captions).items():
        write_text(site / name, text)
    with as_file(files("zoo.apps.site") / ASSETS) as assets:
        shutil.copytree(assets, site / ASSETS)
    with as_file(files("zoo") / "data" / "licences" / "apache-2.0.txt") as licence:
        shutil.copyfile(licence, site / ASSETS / "transformers.txt")
    own = [*site.glob("*.html"), *(site / ASSETS).iterdir(), *(site / THUMBS).iterdir()]
    return sum(path.stat().st_size for path in own)


def copy_model(built: BuiltFolder, place: Path) -> None:
    """Copy what is there of a folder. **Raises** `BadFile` if a file has changed since."""
    place.mkdir(parents=True)
    write_text(place / MANIFEST, to_text(built.manifest))
    for file in built.files:
        target = place / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_inside(built.folder, file.name) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, PIECE)
        if not file.is_intact_in(place):
            raise BadFile(
                f"{built.folder / file.name} was changed while it was read: {REBUILD_ADVICE}."
            )
