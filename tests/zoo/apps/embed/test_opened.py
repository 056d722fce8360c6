"""Datasets in other programs, as docs/how-to/embed.md opens them."""

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import zoo as package
from tests import folders
from tests.code_blocks import code_blocks
from tests.zoo.apps.embed.test_embed import rows

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "embed.md"
WRITES, *BLOCKS = code_blocks(PAGE.read_text(), "python")
LIBRARIES = [re.search(r"^import (\w+)", block)[1] for block in BLOCKS]


@pytest.fixture
def datasets(tmp_path, stub, pictures, monkeypatch):
    """The rows of a dataset in several parts, which the page also writes as Parquet files."""
    monkeypatch.chdir(tmp_path)
    folders.write(tmp_path / "in", pictures | {"notes.txt": b"", "no.jpg": b"no"})
    package.embed("in", model=stub, out="vectors.lance", shard=15, extra=["thumbnail"])
    exec(WRITES)
    return rows(tmp_path / "vectors.lance")


def test_the_page_has_all_four():
    assert {*LIBRARIES} == {"pandas", "polars", "duckdb", "faiss"} and len(BLOCKS) == 5


@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=lambda n: f"{LIBRARIES[n]}-{n}")
def test_a_dataset_opens(number, datasets):
    if find_spec(LIBRARIES[number]) is None:
        pytest.skip(f"there is no {LIBRARIES[number]} here: the extra [readers] brings it")
    names = {}
    exec(BLOCKS[number].replace("500", "50"), names)
    if "index" in names:
        vectors = np.array([row["vector"] for row in datasets.values()], np.float64)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines, (nearest,) = unit @ unit[0], names["nearest"]
        assert nearest[0] == 0
        np.testing.assert_allclose(cosines[nearest], np.sort(cosines)[::-1][:10], atol=2e-6)
        np.testing.assert_allclose(names["cosines"][0], cosines[nearest], atol=2e-6)
        return
    wanted = {key: row for key, row in datasets.items() if row["width"] < 50}
    small = names["small"]
    if not isinstance(small, list):
        columns = {name: list(small[name]) for name in ("key", "width", "vector")}
        small = [*zip(*columns.values(), strict=True)]
    found = {key: (width, *vector) for key, width, *vector in small}
    assert found.keys() == wanted.keys()
    for key, (width, *vector) in found.items():
        assert width == wanted[key]["width"]
        assert not vector or np.array_equal(np.array(vector[0]), wanted[key]["vector"])


def test_parquet_has_all_rows(datasets):
    table = parquet.read_table("vectors.parquet")
    assert table.column("key").to_pylist() == [*datasets]
