"""`zoo embed` that is killed, on one machine and on a cluster: the same command completes it."""

import json
import os
import random
import resource
import shutil
import sys
import time

import lance
import pytest
from distributed import SubprocessCluster
from PIL import Image

from tests import folders
from tests.command import Command
from tests.killed import STOPPED, Order
from tests.zoo.apps.embed.conftest import jpegs, stub_folder
from tests.zoo.apps.embed.test_changed import content, used_files
from zoo.apps.embed.driver import run_on_cluster
from zoo.common.errors import BadRequest

OUT = "x.lance"
COMMAND = ["embed", "pictures", "--model", "model", "--out", OUT, "--shard", "5"]

KILLED_BEFORE_A_COMMIT = """
import os, signal, sys
from zoo.apps.embed.dataset import Dataset
from zoo.cli import main

_, _, left, *arguments = sys.argv
commit, left = Dataset.commit, int(left)

def kill_or_commit(dataset, results):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    commit(dataset, results)

Dataset.commit = kill_or_commit
sys.argv = ["zoo", *arguments]
main()
"""
"""Program whose driver is killed when fragments are written and not committed yet."""


@pytest.fixture(scope="module")
def begin(tmp_path_factory):
    """A function that makes a working folder with 60 pictures, a broken one, and a network."""
    shared = tmp_path_factory.mktemp("stopped")
    pictures = folders.write(shared / "pictures", jpegs(60))
    (pictures / "b" / "no.jpg").write_bytes(b"no")
    stub_folder(shared / "model")
    numbers = iter(range(1000))

    def make():
        folder = shared / str(next(numbers))
        folder.mkdir()
        for name in ("pictures", "model"):
            (folder / name).symlink_to(shared / name)
        return folder

    return make


def rows_of(folder):
    """Rows by key, without the path of the folder that they are in."""
    found = content(folder / OUT).items()
    return {key: row | {"source": None} for (_, key), row in found}


@pytest.fixture(scope="module")
def undisturbed(begin, run):
    """Rows of a run that nobody stops, and its seconds."""
    folder = begin()
    done = run(Order(str(folder), COMMAND, output=str(folder / "said")))
    assert done.status == 1, (folder / "said.err").read_text()
    found = rows_of(folder)
    assert len(found) == 61 and [key for key in found if found[key]["error"]] == ["b/no.jpg"]
    return found, done.seconds


def complete(folder, run, wanted, command=COMMAND):
    """Give the command once more, and compare what it leaves with the rows of an undisturbed run.

    Return the number of pictures that it computed.
    """
    done = run(Order(str(folder), [*command, "--json"], output=str(folder / "said")))
    assert done.status == 1, (folder / "said.err").read_text()
    assert rows_of(folder) == wanted
    files = {path.name for path in folder.joinpath(OUT, "data").iterdir()}
    assert files == used_files(folder / OUT)
    return json.loads((folder / "said.out").read_text())["computed"]


def committed(folder):
    """Rows that are in the dataset, if there is one."""
    if not [*folder.glob(f"{OUT}/_versions/*.manifest")]:
        return 0
    return lance.dataset(folder / OUT).count_rows()


def kill_before_commit(folder, run, number, command=COMMAND):
    """Kill a run between a write and its commit; some fragments have no commit then."""
    arguments = ["-c", KILLED_BEFORE_A_COMMIT, str(number), *command]
    done = run(Order(str(folder), arguments))
    assert done.status == STOPPED["SIGKILL"]
    written = {path.name for path in folder.joinpath(OUT, "data").iterdir()}
    assert written > used_files(folder / OUT)
    return len(written - used_files(folder / OUT))


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.full)])
def test_killed_between_a_write_and_its_commit(count, begin, run, undisturbed):
    for number in range(count):
        folder = begin()
        for kills in range(1 + number % 2):
            lost = kill_before_commit(folder, run, 1 + number % 3)
            assert lost <= 3 * (1 + kills)
        left = committed(folder)
        assert complete(folder, run, undisturbed[0]) == 61 - left


@pytest.mark.full
@pytest.mark.parametrize("count", [10])
def test_killed_at_drawn_moments(count, begin, run, undisturbed):
    draw = random.Random(count)
    for _ in range(count):
        folder = begin()
        run(Order(str(folder), COMMAND, seconds=draw.uniform(0.2, 1) * undisturbed[1]))
        left = committed(folder)
        assert complete(folder, run, undisturbed[0]) == 61 - left


WORKER = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60")


class Cluster:
    """Dask's scheduler and two workers, of which one that is killed is replaced."""

    def __init__(self, address, folder):
        self.address, self.command = address, Command(folder)
        self.workers = [self.start(), self.start()]

    def start(self):
        program = [sys.executable, "-m", "dask", "worker"]
        return self.command.start(self.address, *WORKER, program=program)

    def kill_one(self, number):
        self.workers[number].kill()
        self.workers[number].communicate()
        self.workers[number] = self.start()

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.communicate()


@pytest.fixture(scope="module")
def cluster(begin):
    with SubprocessCluster(n_workers=0, dashboard_address=None) as scheduler:
        workers = Cluster(scheduler.scheduler_address, begin())
        yield workers
        workers.close()


@pytest.mark.full
def test_a_scheduler_that_does_not_answer():
    with pytest.raises(BadRequest, match="does not answer"):
        run_on_cluster("tcp://127.0.0.1:1", str, iter([0]), print)


@pytest.mark.full
@pytest.mark.parametrize("count", [10])
def test_a_driver_is_killed_between_a_write_and_its_commit(count, begin, run, undisturbed, cluster):
    command = [*COMMAND, "--scheduler", cluster.address]
    for number in range(count):
        folder = begin()
        kill_before_commit(folder, run, 1 + number % 2, command)
        left = committed(folder)
        assert complete(folder, run, undisturbed[0], command) == 61 - left


@pytest.mark.full
@pytest.mark.parametrize("count", [10])
def test_drivers_and_workers_are_killed(count, begin, run, undisturbed, cluster):
    """At drawn moments, in turn. A run whose worker is killed goes on by itself."""
    command, draw = [*COMMAND, "--scheduler", cluster.address], random.Random(count)
    calm = run(Order(str(begin()), command)).seconds
    for number in range(count):
        folder, moment = begin(), draw.uniform(0.2, 1) * calm
        if number % 2:
            run(Order(str(folder), command, seconds=moment))
        else:
            process = Command(folder).start(*command)
            time.sleep(1 + moment)
            cluster.kill_one(number // 2 % 2)
            _, said = process.communicate(timeout=120)
            assert process.returncode == 1, said
        left = committed(folder)
        assert complete(folder, run, undisturbed[0], command) == 61 - left


def second_run(folder, run):
    """Make a finished dataset, whose pictures then change: 15 new, 3 missing, 5 changed."""
    pictures, shared = folder / "pictures", (folder / "pictures").resolve()
    pictures.unlink()
    shutil.copytree(shared, pictures)
    assert run(Order(str(folder), COMMAND)).status == 1
    names, new = [*jpegs(60)], [*jpegs(75).items()][60:]
    for name, data in [*new, *zip(names[10:15], jpegs(5).values(), strict=True)]:
        (pictures / name).write_bytes(data)
        os.utime(pictures / name, (1, 1))
    for name in names[:3]:
        (pictures / name).unlink()


@pytest.mark.full
@pytest.mark.parametrize("count", [1, pytest.param(8, marks=pytest.mark.full)])
def test_an_update_is_killed(count, begin, run):
    """Every picture has one row at any moment: an older or the newer one."""
    folder = begin()
    second_run(folder, run)
    run(Order(str(folder), [*COMMAND, "--prune"]))
    wanted = rows_of(folder)
    assert len(wanted) == 61 + 15 - 3
    for number in range(count):
        folder = begin()
        second_run(folder, run)
        before = rows_of(folder)
        kill_before_commit(folder, run, 1 + number % 2, [*COMMAND, "--prune"])
        left = rows_of(folder)
        assert before.keys() <= left.keys()
        assert all(row in (before.get(key), wanted.get(key)) for key, row in left.items())
        complete(folder, run, wanted, [*COMMAND, "--prune"])


@pytest.mark.full
def test_a_run_is_killed_that_appends_a_model(begin, run):
    """Vectors that were committed are not computed again."""
    append = ["embed", "pictures", "--model", "other", *COMMAND[4:], "--append-model"]
    column, wanted = "vector_dinov3_vits16_fp32", None
    for number in range(6):
        folder = begin()
        stub_folder(folder / "other", 2)
        assert run(Order(str(folder), COMMAND)).status == 1
        if number:
            arguments = ["-c", KILLED_BEFORE_A_COMMIT, str(number), *append]
            assert run(Order(str(folder), arguments)).status == STOPPED["SIGKILL"]
        assert run(Order(str(folder), append, output=str(folder / "said"))).status == 1
        found = rows_of(folder)
        wanted = wanted or found
        assert found == wanted and len(found) == 61
        assert [key for key in found if found[key][column] is None] == ["b/no.jpg"]


def test_an_interrupted_run_says_what_is_done(begin, run, undisturbed):
    folder = begin()
    program = KILLED_BEFORE_A_COMMIT.replace("SIGKILL", "SIGINT")
    order = Order(str(folder), ["-c", program, "2", *COMMAND], output=str(folder / "said"))
    assert run(order).status == STOPPED["SIGINT"]
    assert "interrupted; " in (folder / "said.err").read_text()
    complete(folder, run, undisturbed[0])


def test_a_full_disk(begin, run, undisturbed):
    """A sentence, and what is committed stays."""
    folder, limit = begin(), ((resource.RLIMIT_FSIZE, 8000),)
    command = [*COMMAND[:-1], "60"]
    done = run(Order(str(folder), command, limits=limit, output=str(folder / "said")))
    said = (folder / "said.err").read_text()
    assert done.status == 2 and "No space left" in said and "Traceback" not in said, said
    complete(folder, run, undisturbed[0])


@pytest.mark.full
def test_a_hundred_thousand_small_pictures(begin, run):
    """Take less than a kilobyte each."""
    taken, (one,) = [], jpegs(1).values()
    for count in (1_000, 100_000):
        folder = begin()
        folders.write(folder / "many", {f"{index}.jpg": one for index in range(count)})
        done = run(Order(str(folder), ["embed", "many", *COMMAND[2:6]]))
        assert done.status == 0 and lance.dataset(folder / OUT).count_rows() == count
        taken.append(done.megabytes)
    assert taken[1] < taken[0] + 100, taken


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_an_update_computes_what_changed(count, tmp_path, zoo):
    """Of pictures of which a tenth is added, a tenth replaced and a tenth deleted."""
    tenth, folder, model = count // 10, zoo.here / "in", stub_folder(tmp_path / "model")
    folder.mkdir()

    def draw(numbers, red):
        for number in numbers:
            Image.new("RGB", (8, 6), (red, number % 256, number // 256)).save(
                folder / f"{number:05}.png"
            )

    draw(range(count), 0)
    command = ("embed", "in", "--model", model, "--out", OUT)
    assert zoo.json(*command)["computed"] == count
    draw(range(count, count + tenth), 0)
    draw(range(tenth, 2 * tenth), 200)
    for number in range(tenth):
        (folder / f"{number:05}.png").unlink()
    said = zoo(*command, "--prune").out
    assert f"{2 * tenth:,} of them now" in said
    assert (
        f"{count - 2 * tenth:,} rows are unchanged, {tenth:,} of new pictures were added, "
        f"{tenth:,} of changed ones computed again, {tenth:,} of deleted ones (removed)"
    ) in said
    zoo("embed", "in", "--model", model, "--out", "y.lance")
    assert content(zoo.here / OUT) == content(zoo.here / "y.lance")
