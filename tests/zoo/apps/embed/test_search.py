"""`zoo search`, beside numpy in double precision, SciPy, and what a model itself gives."""

import hashlib
import shutil
import unicodedata
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
import torch
from lance.fragment import write_fragments
from PIL import Image
from scipy.sparse.csgraph import connected_components
from transformers import AutoImageProcessor, AutoTokenizer

import zoo as package
from tests import folders
from tests.references.towers import SENTENCES, save_towers
from tests.vector_datasets import table_of, write_dataset
from tests.zoo.apps.embed.conftest import stub_folder
from weights.progress import Quiet
from zoo.apps.embed import index as vector_index
from zoo.apps.embed import search as search_rows
from zoo.apps.embed import vector_table
from zoo.apps.embed.contact_sheet import CELL_SIDE, GAP, TEXT_HEIGHT, contact_sheet
from zoo.apps.embed.dataset import ChunkResult, Dataset
from zoo.apps.embed.index import build_index, read_index
from zoo.apps.embed.requests import SearchRequest
from zoo.apps.embed.search import find_duplicates, search_table
from zoo.apps.embed.vector_table import Nearest, VectorTable, open_vectors
from zoo.common.errors import BadRequest
from zoo.images.photograph import photograph

NOISE = 2e-6
"""Of cosines in float32."""


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    """Several blocks."""
    monkeypatch.setattr(vector_table, "ROWS_AT_ONCE", 70)


def drawn(rows=500, dim=24, spread=0.3, seed=0):
    """Points around centres, of all lengths, as datasets hold them."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((rows // 20, dim))
    points = centres[random.integers(0, len(centres), rows)]
    points = points + spread * random.standard_normal((rows, dim))
    return (points * random.uniform(0.5, 20, (rows, 1))).astype(np.float16)


def dataset(place, vectors):
    """Written in parts; row n is `n.png`, n pixels wide."""
    parts = []
    for rows in np.array_split(np.arange(len(vectors), dtype=np.int32), 3):
        table = table_of([f"{row}.png" for row in rows], vectors[rows])
        parts.append(table.set_column(1, "width", pa.array(rows)))
    write_dataset(place, parts)
    return open_vectors(place)


def cosines(one, other):
    """In double precision."""
    one, other = (
        each / np.linalg.norm(each, axis=1, keepdims=True)
        for each in (one.astype(np.float64), other.astype(np.float64))
    )
    return one @ other.T


def nearest_of(table, queries, *arguments, **options):
    """Nearest rows of several queries."""
    found = [table.nearest(query, *arguments, **options) for query in queries]
    return Nearest(*map(np.stack, zip(*found, strict=True)))


def test_every_row_is_compared(tmp_path):
    vectors = drawn()
    table = dataset(tmp_path / "x.lance", vectors)
    queries = drawn(60, seed=1)[:7]
    unit = vector_table.unit_rows(queries.astype(np.float32))
    for condition, kept in (
        (None, range(500)),
        ("width % 3 = 1 and key <> '4.png'", range(7, 500, 3)),
    ):
        kept = np.array([1, *kept]) if condition else np.array(kept)
        wanted = cosines(queries, vectors[kept])
        best = np.argsort(-wanted, axis=1)[:, :12]
        found = nearest_of(table, unit, 12, where=condition)
        np.testing.assert_array_equal(found.rows, kept[best])
        np.testing.assert_allclose(
            found.cosines, np.take_along_axis(wanted, best, 1), rtol=0, atol=NOISE
        )
    (first, *_) = found = search_table(
        table, SearchRequest(key="77.png", where="width > 400", count=200)
    )
    order = 401 + np.argsort(-cosines(vectors[77:78], vectors[401:])[0])
    assert [each.row for each in found] == order.tolist() and first.width == first.row
    assert first.key == f"{first.row}.png" and first.height == 3
    itself = search_table(table, SearchRequest(key="477.png", where="width > 400", count=200))
    assert len(itself) == 98 and 477 not in [each.row for each in itself]
    with pytest.raises(
        BadRequest, match="condition of SQL on the columns key, width, height, sha256, such as"
    ):
        table.nearest(unit[0], 3, where="wide > 3")


def test_an_index_finds_what_an_exact_search_finds(tmp_path, monkeypatch):
    vectors = drawn(3000, 32)
    table = dataset(tmp_path / "x.lance", vectors)
    monkeypatch.setattr(vector_index, "PER_PARTITION", 250)
    told = build_index(table, Quiet())
    assert (told.rows, told.partitions, told.asked) == (3000, 12, 100) and told.bytes > 3000
    # Large sets alone use it.
    monkeypatch.setattr(search_rows, "INDEXED_ROWS", 1000)
    indexed = open_vectors(tmp_path / "x.lance")
    queries = drawn(3000, 32, seed=0)[::75] + np.float16(0.01)
    unit = vector_table.unit_rows(queries.astype(np.float32))
    for condition, kept in ((None, np.arange(3000)), ("width >= 2000", np.arange(2000, 3000))):
        wanted = kept[np.argsort(-cosines(queries, vectors[kept]), axis=1)[:, :10]]
        found = nearest_of(indexed, unit, 10, told.probes, condition)
        shares = [len({*a} & {*b}) / 10 for a, b in zip(found.rows, wanted, strict=True)]
        assert np.mean(shares) >= 0.9 and told.recall >= 0.9
        exact = np.take_along_axis(cosines(queries, vectors), found.rows, 1)
        np.testing.assert_allclose(found.cosines, exact, rtol=0, atol=NOISE)
    probed = Mock(return_value=indexed.nearest(unit[0], 11))
    monkeypatch.setattr(VectorTable, "nearest", probed)
    assert len(search_table(indexed, SearchRequest(key="7.png"))) == 10
    assert probed.call_args.args[2] == told.probes
    assert "which finds" in search_rows.describe_index_use(indexed)


def test_duplicates_are_joined_groups(tmp_path):
    """What SciPy's components of all pairs are, also where all rows are the same."""
    vectors = drawn(400, 6, 0.2)
    vectors[350:] = vectors[350]
    table = dataset(tmp_path / "x.lance", vectors)
    for condition, kept in ((None, np.arange(400)), ("width < 330", np.arange(330))):
        near = cosines(vectors[kept], vectors[kept])
        np.fill_diagonal(near, -1)
        _, labels = connected_components(near >= 0.985)
        wanted = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
        wanted = sorted(
            (tuple(rows.tolist()) for rows in wanted if len(rows) > 1),
            key=lambda rows: (-len(rows), rows),
        )
        found = find_duplicates(table, 0.985, condition, Quiet())
        assert [group.rows for group in found] == wanted and 3 < len(wanted) < 100
        for group in found:
            nearest = near[list(group.rows)].max(axis=1)
            np.testing.assert_allclose(group.cosines, nearest, rtol=0, atol=NOISE)


def jpeg(colour):
    import io

    encoded = io.BytesIO()
    Image.new("RGB", (30, 20), colour).save(encoded, "JPEG")
    return encoded.getvalue()


COLOURS = np.array([[250, 10, 10], [240, 20, 30], [10, 250, 10], [20, 10, 240], [90, 90, 90]])


@pytest.fixture
def colours(tmp_path):
    """A folder of a model that gives the mean of each channel, and a dataset of five colours."""
    made = stub_folder(tmp_path / "made")
    means = ((COLOURS / 255 - folders.MEAN) / folders.STD).astype(np.float16)
    keys = [f"deep/{row}.png" for row in range(len(COLOURS))]
    pictures = pa.array([jpeg(tuple(colour)) for colour in COLOURS.tolist()], pa.binary())
    table = table_of(keys, means).append_column("thumbnail", pictures)
    digest = hashlib.sha256(folders.mean_of_pixels(1)).hexdigest()
    made_by = {"model": folders.MODEL, "model_sha256": digest, "place": str(made)}
    write_dataset(tmp_path / "colours.lance", [table], **made_by)
    Image.new("RGB", (64, 40), (245, 15, 20)).save(tmp_path / "red.png")
    return tmp_path


def test_a_picture_is_searched_by_the_dataset_s_own_model(colours, zoo):
    query = ((np.array([[245, 15, 20]]) / 255) - folders.MEAN) / folders.STD
    means = (COLOURS / 255 - folders.MEAN) / folders.STD
    wanted = cosines(query, means)[0]
    data = colours / "colours.lance"
    found = zoo.json("search", data, colours / "red.png", "--out", "sheet.png", "--count", 3)
    order = np.argsort(-wanted)[:3]
    assert [each["row"] for each in found] == order.tolist() == [0, 1, 3]
    for each in found:
        assert abs(each["cosine"] - wanted[each["row"]]) < 1e-3  # of vectors in float16
        assert each["key"] == f"deep/{each['row']}.png"
    sheet = np.asarray(Image.open("sheet.png").convert("RGB")).astype(int)
    middles = [sheet[8 + 80, 8 + 80 + 168 * place] for place in range(3)]
    assert abs(np.array(middles) - COLOURS[order]).max() < 8
    (same,) = package.search(data, Image.open(colours / "red.png"), count=1)
    assert same.key == "deep/0.png"
    assert [row["key"] for row in zoo.json("search", data, "--duplicates")[0]["rows"]] == [
        "deep/0.png",
        "deep/1.png",
    ]
    assert "deep/1.png" in zoo("search", data, "--key", "deep/0.png").out
    # Another network of the same name and shape; none at all; and words that it does not know.
    other = stub_folder(colours / "other", 4)
    for model, told in ((other, "is of another model than"), (colours, "has no model")):
        said = zoo("search", data, colours / "red.png", "--model", model, code=2).error
        assert told in said
    shutil.move(colours / "made", colours / "moved")
    assert "has no model" in zoo("search", data, colours / "red.png", code=2).error
    zoo("search", data, colours / "red.png", "--model", colours / "moved")
    assert "knows pictures alone" in zoo("search", data, "--text", "red", code=2).error


WRONG = {
    "--key x": "no row with the key 'x'",
    "--key deep/0.png --text red": "got --text and --key to search for",
    "": "got nothing to search for",
    "--key deep/0.png --count 0": "got the count 0",
    "--duplicates --above 1.5": "--above 1.5 is no cosine",
    "--key deep/0.png --out sheet.txt": "is no picture",
    "--key deep/0.png --pictures nowhere": "--pictures nowhere is no folder",
    "--key deep/0.png --where nowhere>1": "used (Schema error: No field named nowhere. Valid",
    "--index": "has 5 rows, too few for an index",
}


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_be_searched(words, colours, zoo):
    said = zoo("search", colours / "colours.lance", *words.split(), code=2)
    assert WRONG[words] in said.error and said.out == ""


def test_no_picture_is_refused_before_it_is_read(colours, zoo):
    """There is not the memory for all of it."""
    with open(zoo.here / "hole", "wb") as file:
        file.truncate(1 << 37)
    said = zoo("search", colours / "colours.lance", "hole", code=2)
    assert "first bytes are those of no picture" in said.error


def test_pictures_of_a_sheet_stay_below_their_folder(colours, zoo):
    """A key of a stranger's dataset leads nowhere else."""
    root = colours / "root"
    (root / "deep").mkdir(parents=True)
    shutil.copy(colours / "red.png", root / "deep" / "0.png")
    vectors = np.eye(3, dtype=np.float16) + np.float16(1)
    keys = ["deep/0.png", "../red.png", str(colours / "red.png")]
    write_dataset(colours / "y.lance", [table_of(keys, vectors)])
    said = zoo("search", colours / "y.lance", "--key", keys[0], "--out", "a.png", code=2).error
    assert "has no thumbnails" in said
    places = ("--out", "a.png", "--pictures", root)
    zoo("search", colours / "y.lance", "--duplicates", "--above", 0.5, *places)
    sheet = np.asarray(Image.open("a.png").convert("RGB"))
    shown = [tuple(sheet[88, 88 + 168 * place].tolist()) for place in range(3)]
    assert shown == [(245, 15, 20), (224, 224, 224), (224, 224, 224)]


@pytest.mark.full
def test_a_text_is_searched_among_pictures(zoo):
    """The cosines are those of transformers' two towers."""
    own = zoo.here / "own"
    model = save_towers(own)
    zoo("build", "--weights", own, "--out", "made", "--variant", "fp32", "--size", 64)
    pictures = zoo.here / "pictures"
    pictures.mkdir()
    for turn in range(6):
        photograph().rotate(60 * turn).resize((64, 64)).save(pictures / f"{turn}.png")
    zoo("embed", pictures, "--model", "made/own", "--out", "p.lance", "--dtype", "float32")
    found = zoo.json("search", "p.lance", "--text", SENTENCES[0])
    ids = AutoTokenizer.from_pretrained(own)([SENTENCES[0]], padding="max_length", max_length=64)
    pixels = AutoImageProcessor.from_pretrained(own)(
        [Image.open(path) for path in sorted(pictures.iterdir())], return_tensors="pt"
    )
    with torch.no_grad():
        text = model.text_model(torch.tensor(ids["input_ids"])).pooler_output
        images = model.vision_model(**pixels).pooler_output
    wanted = cosines(text.numpy(), images.numpy())[0]
    assert [each["key"] for each in found] == [f"{turn}.png" for turn in np.argsort(-wanted)]
    np.testing.assert_allclose(
        [each["cosine"] for each in found], np.sort(wanted)[::-1], rtol=0, atol=1e-5
    )


KEYS = ("é", "à", "ß", "ž", unicodedata.normalize("NFD", "é"))


def test_keys_have_their_accents(tmp_path):
    """No two letters are one box, and an accent that a file's name keeps apart is on its letter."""
    table = table_of(KEYS, np.ones((len(KEYS), 4), np.float16))
    pictures = pa.array([b""] * len(KEYS), pa.binary())
    write_dataset(tmp_path / "d.lance", [table.append_column("thumbnail", pictures)])
    cells = [(row, 1.0) for row in range(len(KEYS))]
    sheet = np.asarray(contact_sheet(open_vectors(tmp_path / "d.lance"), [cells], None))
    top = GAP + CELL_SIDE
    below = sheet[top : top + TEXT_HEIGHT // 2]
    words = [below[:, GAP + row * (CELL_SIDE + GAP) :][:, :CELL_SIDE] for row in range(len(KEYS))]
    assert len({word.tobytes() for word in words}) == 4 and (words[0] == words[-1]).all()
    under = sheet[top + TEXT_HEIGHT // 2 : top + TEXT_HEIGHT, GAP:].reshape(TEXT_HEIGHT // 2, 5, -1)
    assert (under.min((0, 2)) < 128).all()  # the number has a line of its own
    more = contact_sheet(open_vectors(tmp_path / "d.lance"), [[*cells, cells[0]]], None)
    assert (more.width, more.height - GAP) == (sheet.shape[1], 2 * (len(sheet) - GAP))


@pytest.mark.full
def test_an_index_stays_when_rows_change(tmp_path, monkeypatch):
    """Rows that came after it are compared one by one, and removed ones are not found."""
    vectors = drawn(600, 32)
    build_index(dataset(tmp_path / "x.lance", vectors), Quiet())
    changed = Dataset.open(tmp_path / "x.lance")
    table = table_of(["7.png", "new.png"], -vectors[[7, 8]])
    fragments = write_fragments(pa.Table.from_batches([table]), str(tmp_path / "x.lance"))
    changed.table.add_columns({"source": "'s'"})
    changed.commit([ChunkResult(fragments, replaced=[("s", "7.png")])])
    monkeypatch.setattr(search_rows, "INDEXED_ROWS", 100)
    opened = open_vectors(tmp_path / "x.lance")
    assert opened.count == 601 and "it lacks 2 rows" in search_rows.describe_index_use(opened)
    facts = read_index(opened)
    for number, key in ((7, "7.png"), (8, "new.png")):
        (query,) = vector_table.unit_rows(-vectors[[number]].astype(np.float32))
        near = opened.nearest(query, 1, facts.probes)
        assert abs(near.cosines[0] - 1) < NOISE
        assert opened.take(near.rows, ["key"]) == [{"key": key}]
    old = opened.nearest(-query, 600, facts.probes)
    assert len(set(old.rows.tolist())) == len(old.rows) and opened.row_of("7.png") > 598
    Dataset.create(tmp_path / "x.lance", table.schema, changed.description)
    emptied = open_vectors(tmp_path / "x.lance")
    assert read_index(emptied) is None and emptied.count == 0
    assert emptied.nearest(query, 3).rows.tolist() == []
