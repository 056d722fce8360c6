"""Vectors, keys and thumbnails of a search page, from a table without Lance."""

import json
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from weights.progress import Quiet
from zoo.apps.embed.requests import KEY, THUMBNAIL
from zoo.apps.site.searchable import SearchableDataset, search_facts, write_searchable


def encode_picture(width, height):
    """Return the bytes of a PNG picture."""
    stream = BytesIO()
    Image.new("RGB", (width, height), "red").save(stream, "PNG")
    return stream.getvalue()


class Table:
    """A table of 300 vectors in two blocks, whose keys descend. Two of three rows have a thumbnail,
    and the first one has noise in its place."""

    count, dim, columns = 300, 5, (KEY, THUMBNAIL)
    description = SimpleNamespace(size=[20, 30], variant="fp32")
    vectors = np.random.default_rng(0).standard_normal((300, 5))
    keys = tuple(f"picture {299 - row:03}" for row in range(300))

    def blocks(self):
        for start, stop in ((0, 180), (180, 300)):
            yield np.arange(start, stop), self.vectors[start:stop]

    def take(self, rows, columns):
        thumbnails = {0: encode_picture(400, 200), 1: None, 2: encode_picture(40, 90)}
        for row in rows:
            picture = b"noise" if row == 0 else thumbnails[row % 3]
            values = {KEY: self.keys[row], THUMBNAIL: picture}
            yield {column: values[column] for column in columns}


BUILT = SimpleNamespace(variants={}, has_tokenizer=True)


def test_rows_are_sorted_by_their_keys(tmp_path):
    searched = SearchableDataset("pictures", Table(), BUILT)
    write_searchable(searched, tmp_path, Quiet())
    folder = tmp_path / "search"
    vectors = np.frombuffer((folder / "vectors.f16").read_bytes(), "<f2").reshape(300, 5)
    np.testing.assert_array_equal(vectors, Table.vectors[::-1].astype(np.float16))
    assert searched.bytes == vectors.nbytes
    stated = json.loads((folder / "keys.json").read_text())
    assert stated["keys"] == sorted(Table.keys)
    row_numbers = [299 - row for row in range(300)]
    has_thumbnail = [row % 3 != 1 and row != 0 for row in row_numbers]
    assert stated["thumbnails"] == has_thumbnail
    names = {f"{i}.jpg" for i, has_one in enumerate(has_thumbnail) if has_one}
    assert {path.name for path in (folder / "thumbnails").iterdir()} == names
    for i, row in ((0, 299), (296, 3)):
        with Image.open(folder / "thumbnails" / f"{i}.jpg") as picture:
            assert picture.size == ((40, 90) if row % 3 == 2 else (128, 64))


@pytest.mark.parametrize("size", [[20, 30], None])
def test_facts_for_the_scripts(size):
    table = Table()
    table.description = SimpleNamespace(size=size, variant="fp32")
    facts = search_facts(SearchableDataset("pictures", table, BUILT), {"size": [7, 8], "name": "n"})
    assert facts["size"] == (size or [7, 8]) and facts["name"] == "n"
    search = facts["search"]
    assert (search["rows"], search["dim"], search["has_thumbnails"]) == (300, 5, True)
    assert (search["pictures"], search["texts"]) == (None, None)
