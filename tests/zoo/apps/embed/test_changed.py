"""`zoo embed` again on pictures that have changed: the rows of a run from nothing, and no more work
than there are new pictures."""

import os
import random
import re
import shutil
from itertools import count
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest

import zoo as package
from tests import folders
from tests.zoo.apps.embed.conftest import jpegs, stub_folder, write_parquet, write_tar
from tests.zoo.apps.embed.test_embed import check, rows
from weights.progress import Quiet
from zoo.apps.embed import dataset as dataset_module
from zoo.apps.embed.dataset import Dataset
from zoo.common.errors import BadFile, BadOutput

NEW, CHANGED = "of new pictures were added", "of changed ones computed again"


def content(dataset):
    """All rows, by source and key, each of which is there once."""
    table = lance.dataset(dataset).to_table().to_pylist()
    found = {(row["source"], row["key"]): row for row in table}
    assert len(found) == len(table)
    return found


def used_files(dataset):
    """Files of the fragments of a dataset."""
    fragments = lance.dataset(dataset).get_fragments()
    return {os.path.basename(file.path) for each in fragments for file in each.data_files()}


class Folder:
    """Pictures on the disk that come, go and change; times differ by whole hours."""

    def __init__(self, place, seed):
        self.place, self.random = place, random.Random(seed)
        self.files, self.fresh = {}, list(jpegs(120).items())
        self.hours = 0

    def add(self, count):
        for _ in range(count):
            name, data = self.fresh.pop(self.random.randrange(len(self.fresh)))
            self.write(name, data)

    def write(self, name, data):
        self.files[name] = data
        self.touch(name, data)

    def touch(self, name, data=None):
        self.hours += 1
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.files[name] if data is None else data)
        os.utime(path, (self.hours * 3600,) * 2)

    def drawn(self, count):
        return self.random.sample(sorted(self.files), count)

    def change(self, count):
        for name in self.drawn(count):
            self.write(name, self.fresh.pop()[1])

    def remove(self, count):
        for name in self.drawn(count):
            (self.place / name).unlink()
            del self.files[name]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(20))])
def test_a_folder_that_changes(seed, tmp_path, stub, monkeypatch):
    """Each time the rows are those of a run from nothing, with all columns."""
    monkeypatch.setattr(dataset_module, "CLEANED_EVERY", 2)
    folder, out = Folder(tmp_path / "in", seed), tmp_path / "x.lance"
    folder.add(30)
    folder.write("b/no.jpg", b"no")
    options = {"model": stub, "shard": 7, "extra": ["thumbnail"], "prune": True}
    first = package.embed(folder.place, out=out, **options)
    assert (first.kept, first.added, first.again, first.gone) == (0, 30, 0, 0)
    for step in range(4):
        draw = folder.random.randrange
        added, changed, removed, touched = (draw(5) for _ in range(4))
        known = dict(folder.files)
        before = {name: data for name, data in known.items() if data != b"no"}
        folder.remove(removed)
        folder.change(changed)
        for name in folder.drawn(touched):
            folder.touch(name)
        folder.add(added)
        after = {name: data for name, data in folder.files.items() if data != b"no"}
        same = [name for name in after if before.get(name) == after[name]]
        again = [name for name in after.keys() & before.keys() if before[name] != after[name]]
        done = package.embed(folder.place, out=out, **options)
        assert done.kept == len(same) and done.again == len(again)
        assert done.added == len(after.keys() - before.keys())
        assert done.gone == len(before.keys() - folder.files.keys())
        assert done.computed <= len(after) - len(same) + 1
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        other = tmp_path / "new" / out.name
        other.parent.mkdir()
        package.embed(folder.place, out=other, **options)
        assert content(out) == content(other), step
        check(rows(out), after)
        assert package.embed(folder.place, out=out, **options).computed == 0
        files = {path.name for path in out.joinpath("data").iterdir()}
        assert files == used_files(out)


def test_rows_of_gone_pictures_are_kept(zoo, stub):
    """Until they come back, or are not wanted any more; the command says how many there are."""
    folder, out = Folder(zoo.here / "in", 3), zoo.here / "x.lance"
    folder.add(20)
    command = ("embed", "in", "--model", stub, "--out", out, "--shard", 6)
    assert "are unchanged" not in zoo(*command).out
    everything, (one, other) = dict(folder.files), folder.drawn(2)
    for name in (one, other):
        (folder.place / name).rename(zoo.here / name.replace("/", "_"))
    folder.add(3)
    (folder.place / "notes.txt").write_bytes(b"")
    said = zoo(*command).out
    assert f"18 rows are unchanged, 3 {NEW}, 0 {CHANGED}, 2 of deleted ones (kept" in said
    assert "skipped, as no pictures by their names: 1 .txt" in said
    everything |= folder.files
    check(rows(out), everything)
    said = zoo.json(*command)
    assert [said[name] for name in ("computed", "kept", "gone")] == [0, 21, 2]
    (zoo.here / one.replace("/", "_")).rename(folder.place / one)
    said = zoo.json(*command)
    assert [said[name] for name in ("computed", "kept", "added", "gone")] == [0, 22, 0, 1]
    check(rows(out), everything)
    del everything[other]
    said = zoo(*command, "--prune").out
    assert f"22 rows are unchanged, 0 {NEW}, 0 {CHANGED}, 1 of deleted ones (removed" in said
    check(rows(out), everything)
    zoo("embed", "in", "--model", stub, "--out", zoo.here / "y.lance", "--shard", 6)
    assert content(out) == content(zoo.here / "y.lance")


@pytest.mark.parametrize("write", [write_tar, write_parquet])
def test_files_that_hold_pictures_change(write, tmp_path, stub, pictures):
    """Those that are the same are not read again; of others what they held is known."""
    names, end = [*pictures], write.__name__.removeprefix("write_")
    one, two, three = ({name: pictures[name] for name in names[i::3]} for i in range(3))
    (tmp_path / "in").mkdir()
    for index, held in enumerate((one, two)):
        write(tmp_path / "in" / f"{index}.{end}", held)
    asked = {"model": stub, "out": tmp_path / "x.lance"}
    source = tmp_path / "in" / f"*.{end}"
    package.embed(source, **asked)
    gone, changed = [*two][:2], [*two][4]
    two = {name: data for name, data in two.items() if name not in gone}
    two[changed] = next(iter(three.values()))
    write(tmp_path / "in" / f"1.{end}", two)
    write(tmp_path / "in" / f"2.{end}", three)
    done = package.embed(source, **asked)
    counts = (done.computed, done.kept, done.added, done.again, done.gone)
    assert counts == (1 + len(three), len(one) + len(two) - 1, len(three), 1, 2)
    check(rows(tmp_path / "x.lance"), one | two | three | {name: pictures[name] for name in gone})
    done = package.embed(source, **asked, prune=True)
    assert (done.computed, done.gone) == (0, 2)
    check(rows(tmp_path / "x.lance"), one | two | three)
    (tmp_path / "in" / f"0.{end}").unlink()
    assert package.embed(source, **asked).gone == len(one)
    check(rows(tmp_path / "x.lance"), one | two | three)
    done = package.embed(source, **asked, prune=True)
    assert (done.computed, done.gone) == (0, len(one))
    package.embed(source, model=stub, out=tmp_path / "y.lance")
    assert content(tmp_path / "x.lance") == content(tmp_path / "y.lance")


def test_pictures_in_a_list_change(tmp_path, stub, pictures):
    """Whose order is its own, and which may name one that comes later."""
    folder, names = folders.write(tmp_path / "in", pictures), [*pictures]
    lines = [*names[5:15], "later.jpg"]
    (folder / "list.txt").write_text("\n".join(lines))
    asked = {"model": stub, "out": tmp_path / "x.lance", "shard": 4}
    assert package.embed(folder / "list.txt", **asked).errors == 1
    (folder / "list.txt").write_text("\n".join(names[2:4] + lines[::-1]))
    folders.write(folder, {"later.jpg": pictures[names[0]]})
    done = package.embed(folder / "list.txt", **asked)
    assert (done.computed, done.kept, done.added, done.errors) == (3, 10, 3, 0)
    assert rows(tmp_path / "x.lance").keys() == {*names[2:4], *lines}


def test_interrupted_while_it_changes(tmp_path, stub, pictures, monkeypatch):
    """It says what is done, which stays, and the same call computes the rest."""
    folder = folders.write(tmp_path / "in", dict([*pictures.items()][:20]))
    asked = {"model": stub, "out": tmp_path / "x.lance", "shard": 5}
    package.embed(folder, **asked)
    before, folder = rows(asked["out"]), folders.write(folder, pictures)
    commit, said, commits = Dataset.commit, Mock(Quiet), count()

    def interrupted(dataset, results):
        if next(commits):
            raise KeyboardInterrupt
        commit(dataset, results)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Dataset, "commit", interrupted)
        package.embed(folder, **asked, progress=said)
    assert re.search(r"not finished: \d of \d chunks are done", str(said.note.mock_calls))
    assert before.keys() <= rows(asked["out"]).keys() < pictures.keys()
    done = package.embed(folder, **asked)
    assert 0 < done.computed <= 20
    check(rows(asked["out"]), pictures)


def test_a_table_that_somebody_else_changed(tmp_path, stub, pictures):
    """Is not made anew: what was done to it would be lost."""
    folder, out = folders.write(tmp_path / "in", pictures), tmp_path / "x.lance"
    package.embed(folder, model=stub, out=out, shard=9)
    lance.dataset(out).add_columns(pa.table({"stars": range(40)}))
    (folder / "a" / "000.jpg").unlink()
    with pytest.raises(BadFile, match="changed by another program"):
        package.embed(folder, model=stub, out=out, shard=9)
    assert "stars" in lance.dataset(out).schema.names
    with pytest.raises(BadOutput, match="other sources"):
        package.embed(tmp_path, model=stub, out=out, shard=9)


def test_no_model_is_appended_to_rows_of_gone_pictures(tmp_path, stub, pictures):
    folder, out = folders.write(tmp_path / "in", pictures), tmp_path / "x.lance"
    package.embed(folder, model=stub, out=out)
    (folder / "a" / "000.jpg").unlink()
    package.embed(folder, model=stub, out=out)
    other = stub_folder(tmp_path / "other", 2)
    with pytest.raises(BadOutput, match="other pictures now than its rows"):
        package.embed(folder, model=other, out=out, append_model=True)
    package.embed(folder, model=stub, out=out, prune=True)
    assert package.embed(folder, model=other, out=out, append_model=True).pictures == 39
