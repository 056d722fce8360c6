"""`zoo embed`: every picture once, whatever it lies in, with the network's own numbers."""

import hashlib
import io
import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import zoo as package
from tests import folders
from tests.zoo.embedding.conftest import by_hand, stub_folder, write_parquet, write_tar
from zoo.embedding.about import read_about
from zoo.errors import BadOutput, BadRequest


def rows(dataset):
    """The rows by key, in their order."""
    if dataset.suffix == ".lance":
        table = lance.dataset(dataset).to_table()
    else:
        parts = [parquet.read_table(path) for path in sorted(dataset.glob("part-*.parquet"))]
        table = pa.concat_tables(parts)
    found = {row["key"]: row for row in table.to_pylist()}
    assert len(found) == len(table)
    return found


def check(found, pictures, scale=1, atol=2e-3):
    """Float16 keeps three digits of numbers below 4."""
    assert sorted(found) == sorted(pictures)
    for key, data in pictures.items():
        np.testing.assert_allclose(found[key]["vector"], by_hand(data, scale), atol=atol)
        image = Image.open(io.BytesIO(data))
        assert (found[key]["width"], found[key]["height"]) == image.size
        assert found[key]["sha256"] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("suffix", [".lance", ".parquet"])
def test_a_folder(suffix, zoo, stub, pictures):
    """With pictures that are none, hidden files and texts; a second run finds nothing to do."""
    folder = folders.write(zoo.here / "pictures", pictures)
    whole = pictures["a/000.jpg"]
    others = {
        "a/note.txt": b"",
        ".hidden/1.jpg": whole,
        "b/cut.jpg": whole[:200],
        "c/no.png": b"no",
    }
    folders.write(folder, others)
    out = zoo.here / f"vectors{suffix}"
    command = ("embed", folder, "--model", stub, "--out", out, "--shard", 7, "--exact")
    said = zoo.json(*command, code=1)
    assert (said["pictures"], said["errors"], said["computed"]) == (40, 2, 42)
    found = rows(out)
    check(found, pictures)
    assert list(found) == sorted(pictures)
    errors = parquet.read_table(zoo.here / "vectors.errors.parquet").to_pylist()
    assert [each["key"] for each in errors] == ["b/cut.jpg", "c/no.png"]
    assert all("no picture" in each["reason"] for each in errors)
    about = read_about(out)
    assert (about.pictures, about.errors, about.dim, about.draft) == (40, 2, 3, False)
    assert zoo.json(*command, code=1)["computed"] == 0
    assert not (out / "_work").exists()


def test_every_kind_of_source(tmp_path, stub, pictures):
    """Gives the same rows, in batches or not."""
    folder = folders.write(tmp_path / "pictures", pictures)
    named = [*pictures]
    (folder / "list.txt").write_text("\n".join(named) + "\n")
    halves = [dict([*pictures.items()][i::2]) for i in (0, 1)]
    for index, half in enumerate(halves):
        write_tar(tmp_path / f"{index:02d}.tar", half)
        write_parquet(tmp_path / f"{index}.parquet", half)
    sources = {
        "list": folder / "list.txt",
        "pattern": folder / "*" / "*.jpg",
        "tar": tmp_path / "{00..01}.tar",
        "tars": tmp_path / "*.tar",
        "parquet": tmp_path / "{0,1}.parquet",
        "url": f"file://{folder}",
        "url of tars": f"file://{tmp_path}/*.tar",
    }
    options = {"model": stub, "dtype": "float32", "draft": False, "shard": 9}
    package.embed(folder, out=tmp_path / "all.lance", **options)
    expected = rows(tmp_path / "all.lance")
    check(expected, pictures, atol=1e-5)
    for name, source in sources.items():
        out = tmp_path / f"{name}.lance"
        package.embed(source, out=out, batch=1 + len(name), **options)
        found = rows(out)
        assert found.keys() == expected.keys()
        for key, row in found.items():
            np.testing.assert_allclose(row.pop("vector"), expected[key]["vector"], atol=1e-6)
            assert row.items() <= expected[key].items()


def test_files_that_are_cut_short(tmp_path, stub, pictures):
    """What is whole in them is there."""
    write_tar(tmp_path / "x.tar", pictures)
    write_parquet(tmp_path / "x.parquet", pictures)
    for name in ("x.tar", "x.parquet"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2 + 100])
    told = package.embed(
        [tmp_path / "x.tar", tmp_path / "x.parquet"], model=stub, out=tmp_path / "x.lance"
    )
    assert 10 < told.pictures < 30 and told.errors == 2
    errors = parquet.read_table(tmp_path / "x.errors.parquet").to_pylist()
    assert {"x.parquet"} < {each["key"] for each in errors}
    found = rows(tmp_path / "x.lance")
    check(found, {key: pictures[key] for key in found}, atol=2e-3)


def test_another_model_is_refused(tmp_path, stub, pictures):
    folder, out = folders.write(tmp_path / "pictures", pictures), tmp_path / "x.lance"
    package.embed(folder, model=stub, out=out, draft=False)
    shutil.move(stub, tmp_path / "moved")
    assert package.embed(folder, model=tmp_path / "moved", out=out, draft=False).computed == 0
    other = stub_folder(tmp_path / "other", 2)
    with pytest.raises(BadOutput, match="cannot be compared"):
        package.embed(folder, model=other, out=out, draft=False)
    with pytest.raises(BadOutput, match="other dtype"):
        package.embed(folder, model=tmp_path / "moved", out=out, draft=False, dtype="float32")
    check(rows(out), pictures)
    assert package.embed(folder, model=other, out=out, draft=False, force=True).computed == 40
    check(rows(out), pictures, scale=2, atol=4e-3)
    (tmp_path / "own.lance").mkdir()
    (tmp_path / "own.lance" / "thesis").write_bytes(b"")
    with pytest.raises(BadOutput, match="no dataset"):
        package.embed(folder, model=other, out=tmp_path / "own.lance", force=True)


def test_a_network_without_vectors(tmp_path, pictures):
    folder = folders.write(tmp_path / "built", folders.published(folders.contents()))
    with pytest.raises(BadRequest, match="embed pictures with another"):
        package.embed(tmp_path, model=folder, out=tmp_path / "x.lance")


@pytest.mark.full
def test_columns_on_request(zoo, tmp_path, pictures):
    """Of a classifier with tokens, as `zoo.load` gives them for one picture."""
    zoo("build", "vit_digits", "--variant", "fp32", "--out", "art", "--offline")
    place, folder = zoo.here / "art" / "vit_digits", folders.write(zoo.here / "in", pictures)
    command = ("embed", folder, "--model", place, "--dtype", "float32", "--exact", "--batch", "3")
    extra = ("--with", "patches,logits,best", "--with", "thumbnail")
    for out in (zoo.here / "x.lance", zoo.here / "x.parquet"):
        zoo(*command, *extra, "--out", out)
        found, model = rows(out), package.load(str(place))
        for key in [*pictures][:5]:
            row, wanted = found[key], model(folder / key)
            atol = {"rtol": 0, "atol": 1e-5}
            np.testing.assert_allclose(row["vector"], wanted["pooler_output"][0], **atol)
            np.testing.assert_allclose(row["logits"], wanted["logits"][0], **atol)
            states = wanted["last_hidden_state"][0]
            patches = np.reshape(row["patches"], (-1, states.shape[1]))
            np.testing.assert_allclose(patches, states[-len(patches) :], **atol)
            assert 0 < len(states) - len(patches) < 6
            best = model.answer(folder / key)[0].answers
            assert [each["label"] for each in row["best"]] == [each.label for each in best]
            assert max(Image.open(io.BytesIO(row["thumbnail"])).size) <= 128
