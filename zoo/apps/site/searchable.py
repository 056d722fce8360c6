"""Check a dataset of vectors and write it for the search page of a site."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.calls import need_lance
from zoo.apps.embed.requests import KEY, THUMBNAIL
from zoo.apps.site.folders import BuiltFolder
from zoo.architectures.inputs import Kind, find_kinds
from zoo.artifacts.choices import tower_variant
from zoo.artifacts.read import to_text
from zoo.common.errors import BadRequest
from zoo.common.staging import write_text
from zoo.images.pictures import read_picture

if TYPE_CHECKING:
    from zoo.apps.embed.vector_table import VectorTable

SEARCH, VECTORS_FILE, KEYS, THUMBNAILS = "search", "vectors.f16", "keys.json", "thumbnails"
"""The folder of the search page in a site, and the names of its contents."""

MAX_SEARCHED_ROWS = 20_000
"""The largest number of rows of a dataset, which every visitor downloads.

With 384 numbers a row they are 15 MB.
"""

THUMBNAIL_SIDE = 128
"""The largest side of a thumbnail in pixels."""

EQUIVALENT_VARIANTS = ("fp32", "fused")
"""Variants whose vectors equal those of the dataset up to rounding.

They are used if a browser cannot run the variant that made the dataset.
"""


@dataclass(frozen=True)
class SearchableDataset:
    """A dataset of vectors for the search page of a site.

    - `name`: the name of the dataset.
    - `table`: the vectors, keys and thumbnails.
    - `built`: the folder of the site whose model computed the vectors.
    """

    name: str
    table: "VectorTable"
    built: BuiltFolder

    @property
    def bytes(self) -> int:
        """The size in bytes of the vectors in the site, in float16."""
        return 2 * self.table.count * self.table.dim

    @property
    def pictures(self) -> str | None:
        """The variant with which a browser computes vectors of pictures, or None without one."""
        return self._find_variant("picture", "", tower_variant("picture", ""))

    @property
    def texts(self) -> str | None:
        """The variant with which a browser computes vectors of texts, or None without one.

        None is also returned if the folder has no tokenizer.
        """
        return (
            self._find_variant("text", tower_variant("text", ""))
            if self.built.has_tokenizer
            else None
        )

    def _find_variant(self, kind: Kind, *prefixes: str) -> str | None:
        """Return the name of a variant that a browser can run for inputs of a kind, or None.

        The first suitable name is returned. The candidates are the dataset's variant and its
        equivalents, with each of the prefixes before the name.
        """
        names = (
            prefix + name
            for name in (self.table.description.variant, *EQUIVALENT_VARIANTS)
            for prefix in prefixes
        )
        return next((name for name in names if _runs_in_browser(self.built, name, kind)), None)


def _runs_in_browser(built: BuiltFolder, name: str, kind: Kind) -> bool:
    """Return whether a browser can compute vectors with a variant from inputs of one kind.

    The variant must be one file in fp32 or int8, and must take and return the arrays that the
    scripts support: `pixel_values` or token ids, and `pooler_output`.
    """
    if (variant := built.variants.get(name)) is None:
        return False
    config, names = built.entry.config, {spec.name for spec in variant.inputs}
    is_known = names <= {*config.input_names} and (
        config.pictures is None or config.pictures.is_plain
    )
    outputs = {output.name for output in variant.outputs}
    is_one_file = variant.precision in ("fp32", "int8") and len(variant.files) == 1
    takes_kind = is_known and find_kinds(config.inputs, names) == {kind}
    return is_one_file and takes_kind and "pooler_output" in outputs


def read_searchable(dataset: Path, models: Sequence[BuiltFolder]) -> SearchableDataset:
    """Open a dataset of vectors for the search page of a site.

    **Raises** `BadRequest` if the dataset is empty or too large, or if none of `models` computed
    its vectors, and `BadFile` if it cannot be read.
    """
    need_lance()
    from zoo.apps.embed.vector_table import open_vectors

    table = open_vectors(dataset)
    if not 0 < table.count <= MAX_SEARCHED_ROWS:
        raise BadRequest(
            f"{dataset} has {table.count:,} rows, and a page searches 1 to {MAX_SEARCHED_ROWS:,}, "
            "which every visitor downloads: name a smaller dataset, or use `zoo search`."
        )
    metadata = table.description
    for built in models:
        if metadata.model_sha256 in {file.sha256 for file in built.manifest.files}:
            return SearchableDataset(dataset.stem, table, built)
    raise BadRequest(
        f"{dataset} was made by {metadata.label}, which is in none of the folders: name the folder "
        "of this model too."
    )


def write_searchable(searched: SearchableDataset, site: Path, progress: Progress) -> None:
    """Write the data of the search page into the folder of a site.

    These are the vectors of length 1 in float16, the keys, and a JPEG file for each thumbnail. The
    rows are sorted by their keys, because their order in a dataset is arbitrary.
    """
    progress.stage(f"writing {searched.table.count:,} rows of {searched.name}")
    folder = site / SEARCH
    (folder / THUMBNAILS).mkdir(parents=True)
    blocks = [(rows, vectors.astype("<f2")) for rows, vectors in searched.table.blocks()]
    rows, vectors = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    keys = [values[KEY] for values in searched.table.take(rows, (KEY,))]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__))
    (folder / VECTORS_FILE).write_bytes(vectors[order].tobytes())
    has_thumbnail: list[bool] = []
    for part in np.array_split(rows[order], -(-len(rows) // 256)):
        for values in searched.table.take(part, (KEY, THUMBNAIL)):
            has_thumbnail.append(
                _write_thumbnail(values.get(THUMBNAIL), folder, len(has_thumbnail))
            )
    keys = [keys[index] for index in order]
    write_text(folder / KEYS, to_text({"keys": keys, "thumbnails": has_thumbnail}))


def _write_thumbnail(data: bytes | None, folder: Path, row: int) -> bool:
    """Write a thumbnail as a JPEG file, named by the number of its row.

    `data` is the encoded picture. It is decoded and encoded again, because it may contain anything.
    Return False if it is None or not a picture, and write nothing then.
    """
    try:
        picture = read_picture(data or b"", str(row)).image
    except BadRequest:
        return False
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    encoded = io.BytesIO()
    picture.save(encoded, "JPEG", quality=85)
    (folder / THUMBNAILS / f"{row}.jpg").write_bytes(encoded.getvalue())
    return True


def search_facts(searched: SearchableDataset, model: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that the scripts of the search page need.

    `model` holds the facts for the scripts of the model's page.
    """
    return model | {
        "size": searched.table.description.size or model["size"],
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
