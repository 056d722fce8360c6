"""Reading an Equimo archive, beside decompressing it once into a folder.

    python benchmarks/lz4_access.py [MODEL]

Each way runs in a process of its own that opens the checkpoint and reads every tensor once: the
archive, which is decompressed into a file without a name; a folder that has to be unpacked first;
and one that was unpacked before. Seconds, memory that the process took at most, bytes that stay on
the disk beside the archive, and the ratio to reading the archive.
"""

import argparse
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import lz4.frame

from weights import open_checkpoint


def read_all(path: Path) -> None:
    for tensor in open_checkpoint(path).tensors.values():
        tensor.read()


def unpack(archive: Path, folder: Path) -> None:
    with lz4.frame.open(archive) as file, tarfile.open(fileobj=file, mode="r|") as members:
        members.extractall(folder, filter="data")


def unpacked(folder: Path) -> Path:
    return next(folder.rglob("weights.eqx"))


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "the archive": lambda archive, folder: read_all(archive),
    "unpacked first": lambda archive, folder: (
        unpack(archive, folder / "new"),
        read_all(unpacked(folder / "new")),
    ),
    "unpacked before": lambda archive, folder: read_all(unpacked(folder / "old")),
}


def measure(way: str, archive: Path, folder: Path) -> tuple[float, float]:
    """Seconds, and megabytes of memory."""
    command = [sys.executable, __file__, "--way", way, str(archive), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, ran.stdout.split())
    return seconds, megabytes


def compare(model: str) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        archive = folder / f"{model}.tar.lz4"
        for command in (
            ["golden", "make", model, str(folder / "w.pth")],
            ["weights", "convert", str(folder / "w.pth"), str(archive), "--model", model],
        ):
            run = [sys.executable, "-m", "zoo", *command]
            subprocess.run(run, check=True, capture_output=True)
        unpack(archive, folder / "old")
        disk = sum(path.stat().st_size for path in (folder / "old").rglob("*") if path.is_file())
        print(f"{model}: archive of {archive.stat().st_size / 1e6:.0f} MB", flush=True)
        first = None
        for way in WAYS:
            seconds, megabytes = min(measure(way, archive, folder) for _ in range(3))
            first = first or seconds
            beside = 0 if way == "the archive" else disk / 1e6
            ratio = seconds / first
            print(f"{way:16} {seconds:6.2f} s  {megabytes:6.0f} MB  {beside:6.0f} MB  {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("what", nargs="*", default=["dinov3_vits16"])
    options = parser.parse_args()
    if options.way is None:
        compare(options.what[0])
        return
    begun = time.perf_counter()
    archive, folder = map(Path, options.what)
    WAYS[options.way](archive, folder)
    print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
