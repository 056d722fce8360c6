"""`zoo embed`: every picture once, whatever it lies in, with the network's own numbers."""

import hashlib
import io
import json
import shutil
import tarfile

import lance
import numpy as np
import pytest
from PIL import Image

import zoo as package
from tests import folders
from tests.zoo.apps.embed.conftest import by_hand, stub_folder, write_parquet, write_tar
from zoo.apps.embed.vector_table import open_vectors
from zoo.common.errors import BadFile, BadOutput, BadRequest


def rows(dataset):
    """Rows of pictures that could be read, by key."""
    table = lance.dataset(dataset).to_table(filter="error is null")
    found = {row["key"]: row for row in table.to_pylist()}
    assert len(found) == len(table)
    return found


def errors(dataset):
    """Reasons of the other pictures, by key."""
    table = lance.dataset(dataset).to_table(filter="error is not null").to_pylist()
    assert all(row["vector"] is None and row["width"] is None for row in table)
    return {row["key"]: row["error"] for row in table}


def describe(dataset):
    """Description of a dataset."""
    return open_vectors(dataset).description


def check(found, pictures, scale=1, atol=2e-3):
    """Float16 keeps three digits of numbers below 4."""
    assert sorted(found) == sorted(pictures)
    for key, data in pictures.items():
        np.testing.assert_allclose(found[key]["vector"], by_hand(data, scale), atol=atol)
        image = Image.open(io.BytesIO(data))
        assert (found[key]["width"], found[key]["height"]) == image.size
        assert found[key]["sha256"] == hashlib.sha256(data).hexdigest()


def bomb():
    """A picture of 20 kB that would take 90 MB and more."""
    file = io.BytesIO()
    Image.new("1", (9500, 9500)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_folder(zoo, stub, pictures):
    """With pictures that are none, hidden files and texts; a second run finds nothing to do."""
    folder = folders.write(zoo.here / "pictures", pictures)
    whole = pictures["a/000.jpg"]
    others = {
        "a/note.txt": b"",
        ".hidden/1.jpg": whole,
        "b/cut.jpg": whole[:200],
        "c/bomb.png": bomb(),
        "c/no.png": b"no",
    }
    folders.write(folder, others)
    out = zoo.here / "vectors.lance"
    command = ("embed", folder, "--model", stub, "--out", out, "--shard", 7, "--exact")
    said = zoo.json(*command, code=1)
    assert (said["pictures"], said["errors"], said["computed"]) == (40, 3, 43)
    found = rows(out)
    check(found, pictures)
    reasons = errors(out)
    assert sorted(reasons) == ["b/cut.jpg", "c/bomb.png", "c/no.png"]
    told = ("no picture", "give a picture of at most 89 million", "no picture")
    assert all(text in reasons[key] for text, key in zip(told, sorted(reasons), strict=True))
    about = describe(out)
    assert (about.dim, about.draft, about.size) == (3, False, folders.SIZE)
    said = zoo.json(*command, code=1)
    assert [said[name] for name in ("computed", "added", "again", "kept")] == [0, 0, 0, 40]
    assert {path.name for path in out.parent.iterdir()} == {"pictures", "vectors.lance"}


def test_the_size_is_that_of_the_preprocessing_where_the_file_has_none(tmp_path, stub, pictures):
    manifest = json.loads((stub / "manifest.json").read_text())
    (stub / "manifest.json").write_text(json.dumps(manifest | {"size": None}))
    folder = folders.write(tmp_path / "in", dict([*pictures.items()][:1]))
    package.embed(folder, model=stub, out=tmp_path / "x.lance")
    assert describe(tmp_path / "x.lance").size == folders.SIZE


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
            np.testing.assert_allclose(row["vector"], expected[key]["vector"], atol=1e-6)
            for column in ("width", "height", "sha256", "error"):
                assert row[column] == expected[key][column]


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
    assert {"x.parquet"} < errors(tmp_path / "x.lance").keys()
    found = rows(tmp_path / "x.lance")
    check(found, {key: pictures[key] for key in found}, atol=2e-3)


def test_a_name_that_comes_twice(tmp_path, stub, pictures):
    """Is one row in a list, and in a tar file a row for each of its pictures."""
    names = [*pictures][:3]
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in names:
            member = tarfile.TarInfo("a.jpg")
            member.size = len(pictures[name])
            archive.addfile(member, io.BytesIO(pictures[name]))
    sources = [tmp_path / "x.tar", tmp_path / "*.tar"]
    assert package.embed(sources, model=stub, out=tmp_path / "x.lance").pictures == 3
    found = rows(tmp_path / "x.lance")
    check(found, dict(zip(("a.jpg", "a.jpg#2", "a.jpg#3"), map(pictures.get, names), strict=True)))
    folder = folders.write(tmp_path / "in", {name: pictures[name] for name in names})
    (folder / "list.txt").write_text("\n".join([*names, names[0]]))
    assert package.embed(folder / "list.txt", model=stub, out=tmp_path / "y.lance").pictures == 3


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


def test_the_first_model_keeps_further_columns(tmp_path, stub, pictures):
    """A run that appends the model of the dataset brings all columns up to date."""
    folder, out = folders.write(tmp_path / "in", pictures), tmp_path / "x.lance"
    package.embed(folder, model=stub, out=out, extra=["thumbnail"])
    (folder / [*pictures][3]).write_bytes(pictures[[*pictures][4]])
    package.embed(folder, model=stub, out=out, append_model=True)
    assert all(row["thumbnail"] for row in rows(out).values())


def test_a_model_is_appended(zoo, tmp_path, stub, pictures):
    """Its vectors lie in a column beside; the rows, and what was computed before, stay."""
    folder, out = folders.write(zoo.here / "in", pictures), zoo.here / "x.lance"
    (folder / "a" / "no.jpg").write_bytes(b"no")
    asked = {"out": out, "draft": False, "shard": 7}
    package.embed(folder, model=stub, **asked)
    other, third = (stub_folder(tmp_path / f"model{scale}", scale) for scale in (2, 3))
    before = {path: path.read_bytes() for path in out.joinpath("data").iterdir()}
    first = rows(out)
    other_key, changed, lost = ([*pictures][index] for index in (0, 3, 11))
    (folder / changed).write_bytes(pictures[[*pictures][4]])
    (folder / lost).write_bytes(b"no more")
    command = ("embed", folder, "--model", other, "--out", out, "--exact", "--shard", 7)
    assert "--append-model" in zoo(*command, code=2).err
    command += ("--append-model",)
    said = zoo.json(*command, code=1)
    assert (said["pictures"], said["errors"], said["computed"]) == (40, 3, 38)
    assert zoo.json(*command, code=1)["computed"] == 0
    package.embed(folder, model=third, append_model=True, **asked)
    for appends in (False, True):
        with pytest.raises(BadOutput, match="other pictures than there are now, and has vector_d"):
            package.embed(folder, model=stub, append_model=appends, **asked)
    found, about = rows(out), describe(out)
    assert all(path.read_bytes() == data for path, data in before.items())
    assert {key: first[key] for key in first} == {
        key: {name: row[name] for name in about.columns} for key, row in found.items()
    }
    for network, scale in zip(about.appended, (2, 3), strict=True):
        assert {key for key in found if found[key][network.column] is None} == {changed, lost}
        for key in pictures.keys() - {changed, lost}:
            wanted = by_hand(pictures[key], scale)
            np.testing.assert_allclose(found[key][network.column], wanted, atol=6e-3)
    assert [*errors(out)] == ["a/no.jpg"]
    told = package.search(out, key=other_key, vector=about.appended[1].column, count=50)
    assert {each.key for each in told} == pictures.keys() - {changed, lost, other_key}


@pytest.mark.parametrize(
    "options, told",
    [
        ({"out": "x.parquet"}, "does not end in .lance"),
        *(({"out": f"x{mark}.lance"}, "control a terminal") for mark in "\t\n\x1b\x7f"),
        ({"force": True}, "leave out `force`"),
        ({"extra": ["thumbnail"]}, "leave out `extra`"),
        ({"dtype": "float32"}, "other dtype"),
        ({"out": "y.lance"}, "is no dataset, to which"),
        ({"sources": "fewer"}, "other sources"),
        ({}, "other pictures now than its rows"),
    ],
)
def test_no_model_is_appended(options, told, tmp_path, stub, pictures, monkeypatch):
    """Where its vectors would not be beside those of the same pictures."""
    monkeypatch.chdir(tmp_path)
    for name in ("in", "fewer"):
        folders.write(tmp_path / name, dict([*pictures.items()][:6]))
    package.embed("in", model=stub, out="x.lance")
    (tmp_path / "in" / [*pictures][2]).unlink()
    asked = {"sources": "in", "out": "x.lance"} | options
    other = stub_folder(tmp_path / "other", 2)
    with pytest.raises((BadOutput, BadRequest, BadFile), match=told):
        package.embed(**asked, model=other, append_model=True)
    assert describe(tmp_path / "x.lance").appended == ()


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
    out = zoo.here / "x.lance"
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
