"""How fast a checkpoint becomes an ONNX file, beside copying it on the same disk.

    python benchmarks/writing.py [MODEL] [--rounds 3] [--forms FORM …] [--place FOLDER] [--disk MB]

Writes a checkpoint of random weights in every form, then copies it with `cp` and exports it with
`zoo export --no-verify` in turns. Neither finds the checkpoint in the system's memory, and both end
when what they have written is on the disk. The whole process of the export counts, imports and
conversion too. Everything is removed in the end. Linux only; twice the model's size is needed.

With `--disk`, the disk reads and writes so many megabytes a second at most: on one that is as fast
as memory, what a processor has to do counts for more than it does on others. That takes root and
version 1 of the kernel's control groups.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from large import watch

import zoo
from weights import random_weights
from weights.progress import Quiet
from weights.writers.items import items_for
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.convert import naming_to_write, read_format, write_as
from zoo.checkpoints.load import model_shapes

NAMES = {
    "pth": "model.pth",
    "safetensors": "folder",
    "eqx": "model.eqx",
    "tar.lz4": "model.tar.lz4",
}
"""What each form of checkpoint is called: the name says which it is."""

THROTTLE = "/sys/fs/cgroup/blkio/blkio.throttle.{}_bps_device"
"""Where the kernel is told how fast a disk may read and write."""


@dataclass(frozen=True)
class Run:
    """Seconds on the clock and of all processors together, and bytes of memory of its own."""

    seconds: float
    processors: float
    peak: int


def write_checkpoint(entry: ModelInfo, place: Path) -> None:
    """Random weights in the form that the name of the place says."""
    naming = naming_to_write(entry, read_format(place))
    leaves = model_shapes(entry.config_for(naming.name))
    items = items_for(naming, random_weights(leaves, 0).arrays, leaves)
    write_as(naming.name, place, items, entry, Quiet())


def files_at(place: Path) -> list[Path]:
    """The files that are a checkpoint, or in a folder."""
    return [path for path in (place, *place.rglob("*")) if path.is_file()]


def on_disk(paths: Sequence[Path], forget: bool = False) -> None:
    """Wait until files are on the disk, and perhaps have the system forget what is in them."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file)
            if forget:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def throttled(place: Path, megabytes: int) -> Generator[None]:
    """Have the disk of a folder be that slow; 0 is as fast as it is."""
    device = place.stat().st_dev

    def limit(speed: int) -> None:
        for way in ("read", "write"):
            told = f"{os.major(device)}:{os.minor(device)} {speed}"
            Path(THROTTLE.format(way)).write_text(told)

    if not megabytes:
        yield
        return
    limit(megabytes * 1_000_000)
    try:
        yield
    finally:
        limit(0)


def measure(command: Sequence[str], source: Path, out: Path) -> Run:
    """Run a command that makes files in `out` from a checkpoint; they are removed."""
    out.mkdir()
    on_disk(files_at(source), forget=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        peak = watch(process)["RssAnon"]
        _, told = process.communicate()
    on_disk(files_at(out))
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(told.decode(errors="replace"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(out)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(seconds, used, peak)


def compare(model: str, source: Path, out: Path, rounds: int) -> tuple[list[Run], list[Run]]:
    """Copies and exports of a checkpoint, in turns."""
    copy = ["cp", "-r", str(source), str(out)]
    export = [sys.executable, "-m", "zoo", "export", model, "--weights", str(source)]
    export += ["--no-verify", "--out", str(out)]
    copies, exports = [], []
    for _ in range(rounds):
        copies.append(measure(copy, source, out))
        exports.append(measure(export, source, out))
    return copies, exports


def show(form: str, copies: Sequence[Run], exports: Sequence[Run]) -> None:
    """The fastest of each, the export's speed as a part of the copy's, and its largest peak."""
    copied, made = (min(runs, key=lambda run: run.seconds) for runs in (copies, exports))
    print(
        f"{form:<12} cp {copied.seconds:6.1f} s   export {made.seconds:6.1f} s   "
        f"{copied.seconds / made.seconds:5.0%} of cp's speed   "
        f"{min(run.processors for run in exports):5.1f} s of processors "
        f"(cp {min(run.processors for run in copies):.1f})   "
        f"{max(run.peak for run in exports) / 1e6:,.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="dinov3_vith16plus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forms", nargs="+", default=list(NAMES), choices=NAMES, metavar="FORM")
    parser.add_argument("--place", type=Path, default=Path(), metavar="FOLDER")
    parser.add_argument("--disk", type=int, default=0, metavar="MB")
    asked = parser.parse_args()
    for form in asked.forms:
        with tempfile.TemporaryDirectory(dir=asked.place) as folder:
            source = Path(folder) / NAMES[form]
            write_checkpoint(zoo.info(asked.model), source)
            with throttled(asked.place, asked.disk):
                runs = compare(asked.model, source, Path(folder) / "made", asked.rounds)
            show(form, *runs)


if __name__ == "__main__":
    main()
