"""Whoever stops `zoo embed`, whenever and however often: the dataset is that of a quiet run."""

import os
import random
import shutil
import sys
import time
from dataclasses import replace

import pytest
from distributed import SubprocessCluster
from PIL import Image

from tests import folders
from tests.command import Command
from tests.killed import STOPPED, Order
from tests.zoo.apps.embed.conftest import jpegs, stub_folder
from tests.zoo.apps.embed.test_changed import content as content_of
from tests.zoo.apps.embed.test_embed import rows

OUT = "x.lance"
COMMAND = ["embed", "pictures", "--model", "model", "--out", OUT, "--shard", "5"]


def content(folder):
    """Every file of its dataset."""
    return content_of(folder / OUT)


@pytest.fixture(scope="module")
def begin(tmp_path_factory):
    """A new working folder with pictures, one of them broken, and a network."""
    place = tmp_path_factory.mktemp("stopped")
    pictures = jpegs(60)
    whole = folders.write(place / "pictures", pictures)
    (whole / "b" / "no.jpg").write_bytes(b"no")
    stub_folder(place / "model")
    count = iter(range(1000))

    def make():
        folder = place / str(next(count))
        folder.mkdir()
        for name in ("pictures", "model"):
            (folder / name).symlink_to(place / name)
        return folder

    return make


@pytest.fixture(scope="module")
def quiet(begin, run):
    """What a run gives that nobody stops, its changes of files, and the seconds that it took."""
    folder = begin()
    status, changes, seconds, _ = run(Order(str(folder), COMMAND, output=str(folder / "said")))
    assert status == 1 and changes > 40, (folder / "said.err").read_text()
    found = content(folder)
    assert len(rows(folder / OUT)) == 60
    assert {"embed.json", "errors"} < found.keys() and len(found) == 16
    return neutral(found, folder), changes, seconds


def neutral(found, folder):
    """The same, wherever the folder is."""
    return {name: data.replace(str(folder).encode(), b"") for name, data in found.items()}


def finish(folder, run, quiet):
    status, *_ = run(Order(str(folder), COMMAND, output=str(folder / "said")))
    assert status == 1, (folder / "said.err").read_text()
    assert neutral(content(folder), folder) == quiet[0]
    assert len(rows(folder / OUT)) == 60
    assert not [*(folder / OUT).rglob(".zoo-*")]


@pytest.mark.parametrize("count", [2, pytest.param(50, marks=pytest.mark.full)])
def test_killed_at_some_change(count, begin, run, quiet):
    """Of its files, and gone on with; every second time it is killed twice."""
    for index in range(count):
        folder, at = begin(), 1 + (2 * index + 1) * quiet[1] // (2 * count)
        for again in range(1 + index % 2):
            run(Order(str(folder), COMMAND, "SIGKILL", max(1, at - 7 * again)))
        finish(folder, run, quiet)


@pytest.mark.parametrize("count", [2, pytest.param(50, marks=pytest.mark.full)])
def test_killed_at_some_moment(count, begin, run, quiet):
    """Which may be in the middle of a write of Lance's own."""
    moments = random.Random(count)
    for _ in range(count):
        folder = begin()
        run(Order(str(folder), COMMAND, seconds=moments.uniform(0.1, 1) * quiet[2]))
        finish(folder, run, quiet)


ACTIONS = ("SIGINT", "SIGKILL")


def killed(count, begin, run, prepare, command):
    """Folders after a second run that was stopped at some change, what was there before it and is
    there in the end; it goes on when the next one is asked for."""
    wanted = changes = None
    for index in range(count + 1):
        folder = begin()
        prepare(folder)
        order, first = Order(str(folder), command, output=str(folder / "said")), content(folder)
        if wanted is not None:
            at, action = 1 + (2 * index - 1) * changes // (2 * count), ACTIONS[index % 2]
            status, *_ = run(replace(order, action=action, at=at))
            assert status == STOPPED[action]
            assert action == "SIGKILL" or "interrupted; " in (folder / "said.err").read_text()
            yield folder, first, wanted
        status, made, *_ = run(order)
        assert status == 1, (folder / "said.err").read_text()
        found = neutral(content(folder), folder)
        if wanted is None:
            wanted, changes = found, made
            assert changes > 40
        assert found == wanted


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 50])
def test_killed_while_a_model_is_appended(count, begin, run):
    """At some change: until it is there, the dataset is that of the first model."""

    def prepare(folder):
        stub_folder(folder / "other", 2)
        run(Order(str(folder), COMMAND))

    command = ["embed", "pictures", "--model", "other", *COMMAND[4:], "--append-model"]
    for folder, first, wanted in killed(count, begin, run, prepare, command):
        kept = content(folder)["embed.json"]
        assert kept in first.values() or kept.replace(str(folder).encode(), b"") in wanted.values()
        assert len(rows(folder / OUT)) == 60
    column = "vector_dinov3_vits16_fp32"
    assert all(row[column] is not None for row in rows(folder / OUT).values())


@pytest.mark.parametrize("count", [2, pytest.param(50, marks=pytest.mark.full)])
def test_killed_while_pictures_are_added(count, begin, run):
    """At some change: until all is done the dataset is as it was, or is said to be unfinished."""

    def prepare(folder):
        pictures = folder / "pictures"
        place = pictures.resolve()
        pictures.unlink()
        shutil.copytree(place, pictures)
        assert run(Order(str(folder), COMMAND)).status == 1
        for name, data in [*jpegs(75).items()][60:]:
            (pictures / name).write_bytes(data)
            os.utime(pictures / name, (1, 1))
        for name in [*jpegs(9)][3:]:
            (pictures / name).unlink()

    for folder, first, _ in killed(count, begin, run, prepare, COMMAND):
        own = content(folder)
        if "embed.json" in own:
            assert own["embed.json"] != first["embed.json"] or first.items() <= own.items()
    assert len(rows(folder / OUT)) == 75


def test_a_full_disk(begin, run, quiet):
    """Refuses a file in the middle: a sentence, and what is done stays."""
    for at in (quiet[1] // 3, quiet[1] * 2 // 3):
        folder = begin()
        status, *_ = run(Order(str(folder), COMMAND, "ENOSPC", at, output=str(folder / "said")))
        said = (folder / "said.err").read_text()
        assert status == 2 and "No space left" in said and "Traceback" not in said
        finish(folder, run, quiet)


@pytest.mark.full
def test_a_hundred_thousand_small_pictures(begin, run):
    """Take no more memory than a thousand do."""
    taken, (one,) = [], jpegs(1).values()
    for count in (1_000, 100_000):
        folder = begin()
        folders.write(folder / "many", {f"{index}.jpg": one for index in range(count)})
        done = run(Order(str(folder), ["embed", "many", *COMMAND[2:6]]))
        assert done.status == 0 and len(rows(folder / OUT)) == count
        taken.append(done.megabytes)
    assert taken[1] < taken[0] + 50, taken


WORKER = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60")


@pytest.mark.full
def test_workers_are_killed(begin, run):
    """Of a cluster, one after the other, and others join: every picture once, the same bytes."""
    folder, alone, deadline = begin(), begin(), time.monotonic() + 240
    folder.joinpath("large").mkdir()
    for index in range(40):
        sides = (2400 - index, 1800)
        Image.radial_gradient("L").resize(sides).save(folder / "large" / f"{index}.jpg")
    shutil.copytree(folder / "large", alone / "large")  # of the same times, which datasets note
    command = ["embed", "large", *COMMAND[2:-1], "2", "--exact"]
    assert run(Order(str(alone), command)).status == 0
    workers = []

    def start(address):
        program = [sys.executable, "-m", "dask", "worker"]
        workers.append(Command(folder).start(address, *WORKER, program=program))

    with SubprocessCluster(n_workers=0, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        start(address)
        process = Command(folder).start(*command, "--scheduler", address)
        for kill in range(5):
            while len([*(folder / OUT / "data").glob("*")]) < 2 + 3 * kill:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.02)
            start(address)
            workers[kill].kill()
        _, told = process.communicate(timeout=240)
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert process.returncode == 0, told
    assert len(rows(folder / OUT)) == 40
    assert neutral(content(folder), folder) == neutral(content(alone), alone)
