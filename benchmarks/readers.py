"""Seconds and memory of the worst that each reader takes: the largest picture of each format, and
checkpoints of as many tensors as are read.

    python benchmarks/readers.py

Each is read in a process of its own, whose memory before the reading is taken off.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from weights import open_checkpoint
from weights.containers.bounds import MOST_TENSORS
from weights.progress import Quiet
from weights.tensors import LazyTensor
from weights.writers.eqx_writer import write_eqx
from weights.writers.items import Items
from weights.writers.pth_writer import write_pth
from weights.writers.safetensors_writer import write_safetensors
from zoo.images.pictures import FORMATS, PIXELS, pictures

SIDE = int(PIXELS**0.5)
MODES = {"JPEG": "RGB", "JPEG2000": "RGB", "BMP": "RGB", "GIF": "P", "PPM": "RGB"}
"""What takes most; RGBA in formats that have transparency."""


def picture(format: str, place: Path) -> Path:
    """As large a picture as is read, of a pattern that does not compress to nothing."""
    width = 16383 if format == "WEBP" else SIDE
    height = min(PIXELS // width, width)
    rows = np.arange(height, dtype=np.uint32)[:, None] * 31 + np.arange(width, dtype=np.uint32) * 17
    mode = MODES.get(format, "RGBA")
    made = Image.fromarray((rows >> 3).astype(np.uint8)).convert(mode)
    path = place / f"picture.{format.lower()}"
    made.save(path, format)
    return path


def tensors() -> Items:
    """As many tensors as are read, with long names."""
    zeros = LazyTensor((2, 2), "float32", partial(np.zeros, (2, 2), np.float32))
    return {f"encoder.layers.{i}.attention.self.query": zeros for i in range(MOST_TENSORS)}


def npz(path: Path, items: Items, progress: Quiet) -> None:
    """As numpy writes it."""
    np.savez(path, **{key: tensor.read() for key, tensor in items.items()})


WRITERS: dict[str, Callable[..., None]] = {
    "pth": write_pth,
    "safetensors": write_safetensors,
    "eqx": write_eqx,
    "npz": npz,
}


def measured(reader: Callable[[Path], object], path: Path) -> tuple[float, float]:
    """Seconds, and megabytes above what the process had before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
    before = peak()
    start = time.perf_counter()
    found = reader(path)
    seconds = time.perf_counter() - start
    assert found
    return seconds, peak() - before


def peak() -> float:
    """Megabytes that this process has had at most, on Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def report(name: str, reader: Callable[[Path], object], path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        seconds, megabytes = pool.submit(measured, reader, path).result()
    size = path.stat().st_size / 1e6
    print(f"{name:<12} {size:8.1f} MB  {seconds:6.2f} s  {megabytes:7.0f} MB of memory", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for format in FORMATS:
            report(format, pictures, picture(format, Path(folder)))
        for suffix, write in WRITERS.items():
            path = Path(folder) / f"weights.{suffix}"
            write(path, tensors(), Quiet())
            report(suffix, open_checkpoint, path)


if __name__ == "__main__":
    main()
