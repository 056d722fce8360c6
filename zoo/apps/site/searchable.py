"""A dataset of vectors on a site: checked, and written as what a browser searches by itself."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.vector_table import KEY, THUMBNAIL, VectorTable, open_vectors
from zoo.apps.site.folders import BuiltFolder
from zoo.architectures.inputs import Kind, find_kinds
from zoo.artifacts.choices import tower_variant
from zoo.artifacts.read import to_text
from zoo.common.errors import BadRequest
from zoo.common.staging import write_text
from zoo.images.pictures import read_picture

SEARCH, VECTORS_FILE, KEYS, THUMBNAILS = "search", "vectors.f16", "keys.json", "thumbnails"
"""The folder of a site, and what is in it."""

MOST_SEARCHED = 20_000
"""Rows of a set that a visitor downloads: of 384 numbers they are 15 MB."""

THUMBNAIL_SIDE = 128
"""Pixels of the longer side of a thumbnail, at most."""

RUN = ("fp32", "fused")
"""Variants whose vectors are those of the dataset but for rounding, where the browser has not the
very one."""


@dataclass(frozen=True)
class Searchable:
    """A dataset, and the folder of the site whose model made its vectors."""

    name: str
    table: VectorTable
    built: BuiltFolder

    @property
    def bytes(self) -> int:
        """Bytes of the vectors that are written."""
        return 2 * self.table.count * self.table.dim

    @property
    def pictures(self) -> str | None:
        """The variant that makes vectors of a visitor's pictures, if a browser runs one well."""
        return self._tower("picture", "", tower_variant("picture", ""))

    @property
    def texts(self) -> str | None:
        """The variant that makes vectors of texts, if there is one and a tokenizer."""
        return self._tower("text", tower_variant("text", "")) if self.built.has_tokenizer else None

    def _tower(self, taken: Kind, *prefixes: str) -> str | None:
        names = (prefix + name for name in (self.table.about.variant, *RUN) for prefix in prefixes)
        return next((name for name in names if _runs(self.built, name, taken)), None)


def _runs(built: BuiltFolder, name: str, taken: Kind) -> bool:
    """Whether there is a file that takes this and no other kind, and gives vectors. Browsers make
    `pixel_values` of pictures."""
    if (variant := built.variants.get(name)) is None:
        return False
    config, names = built.entry.config, {each.name for each in variant.inputs}
    known = names <= {*config.takes} and (config.pictures is None or config.pictures.is_plain)
    outputs = {each.name for each in variant.outputs}
    whole = variant.precision in ("fp32", "int8") and len(variant.files) == 1
    fits = known and find_kinds(config.inputs, names) == {taken}
    return whole and fits and "pooler_output" in outputs


def read_searchable(dataset: Path, models: Sequence[BuiltFolder]) -> Searchable:
    """Open a dataset for the site of some folders.

    **Raises** `BadRequest` where it is too large or none of them made it, `BadFile`.
    """
    table = open_vectors(dataset)
    if not 0 < table.count <= MOST_SEARCHED:
        raise BadRequest(
            f"{dataset} has {table.count:,} rows, and a page searches 1 to {MOST_SEARCHED:,}, "
            "which every visitor downloads: name a smaller one, or search it with `zoo search`."
        )
    about = table.about
    for built in models:
        if about.model_sha256 in {file.sha256 for file in built.manifest.files}:
            return Searchable(dataset.stem, table, built)
    raise BadRequest(
        f"{dataset} was made by {about.told}, which "
        "is in none of the folders: name its folder, too."
    )


def write_searchable(searched: Searchable, site: Path, progress: Progress) -> None:
    """Write vectors at length 1 in float16, keys, and thumbnails as pictures of their own.

    Rows are sorted by their keys, since a dataset has them in any order.
    """
    progress.stage(f"writing {searched.table.count:,} rows of {searched.name}")
    place = site / SEARCH
    (place / THUMBNAILS).mkdir(parents=True)
    blocks = [(block.rows, block.vectors.astype("<f2")) for block in searched.table.blocks()]
    rows, vectors = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    keys = [values[KEY] for values in searched.table.take(rows, (KEY,))]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__))
    (place / VECTORS_FILE).write_bytes(vectors[order].tobytes())
    shown: list[bool] = []
    for part in np.array_split(rows[order], -(-len(rows) // 256)):
        for values in searched.table.take(part, (KEY, THUMBNAIL)):
            shown.append(_write_thumbnail(values.get(THUMBNAIL), place, len(shown)))
    keys = [keys[index] for index in order]
    write_text(place / KEYS, to_text({"keys": keys, "thumbnails": shown}))


def _write_thumbnail(data: bytes | None, place: Path, row: int) -> bool:
    """Encode anew what is a picture, and leave out what is none: nobody's bytes are served."""
    try:
        picture = read_picture(data or b"", str(row)).image
    except BadRequest:
        return False
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    encoded = io.BytesIO()
    picture.save(encoded, "JPEG", quality=85)
    (place / THUMBNAILS / f"{row}.jpg").write_bytes(encoded.getvalue())
    return True


def search_facts(searched: Searchable, model: dict[str, Any]) -> dict[str, Any]:
    """Facts for the programs of the page; `model` is what those of the model's page do."""
    return model | {
        "size": searched.table.about.size or model["size"],
        "search": {
            "name": searched.name,
            "pictures": searched.pictures,
            "texts": searched.texts,
            "rows": searched.table.count,
            "dim": searched.table.dim,
            "vectors": f"{SEARCH}/{VECTORS_FILE}",
            "keys": f"{SEARCH}/{KEYS}",
            "has_thumbnails": THUMBNAIL in searched.table.columns,
            "thumbnails": f"{SEARCH}/{THUMBNAILS}",
        },
    }
