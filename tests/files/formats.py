"""The formats of files: small valid files, the change of a file, and its reader."""

import io
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests import folders
from tests.files import archives, changes
from tests.seeded import as_file
from weights import open_checkpoint
from weights.progress import Quiet
from weights.tensors import FLOATS
from weights.writers.pth_writer import write_pth
from weights.writers.safetensors_writer import write_safetensors
from zoo.artifacts.read import read_manifest, to_text

GOLDEN = Path(__file__).parents[1] / "golden"

INDEX = "model.safetensors.index.json"
"""The file that names the shards of a checkpoint."""

MOST_READ = 100
"""The number of tensors of a file whose values are read."""


class Format(NamedTuple):
    """A format.

    `seeds` returns valid files by name and may use a folder, `change` changes the bytes of a file,
    and `read` reads it.
    """

    seeds: Callable[[Path], dict[str, bytes]]
    change: archives.Change
    read: Callable[[Path], object]


def draw_arrays() -> dict[str, np.ndarray]:
    """Draw a few small arrays."""
    rng = np.random.default_rng(3)
    shapes = ((3, 5), (7,), (2, 3, 4), (0, 4), (1, 2, 1, 3))
    return {f"blocks.{i}.w": rng.random(shape, np.float32) for i, shape in enumerate(shapes)}


def read_checkpoint(path: Path) -> None:
    """Read the tensors of a file, and the values of those that can be weights."""
    tensors = open_checkpoint(path).tensors.values()
    for tensor in [tensor for tensor in tensors if tensor.dtype in FLOATS][:MOST_READ]:
        values = tensor.read()
        assert (values.shape, values.dtype) == (tensor.shape, np.float32)


def write_safetensors_seed(folder: Path) -> dict[str, bytes]:
    write_safetensors(folder / "w", as_file(draw_arrays()), Quiet())
    return {"w.safetensors": (folder / "w").read_bytes()}


def write_pth_seeds(folder: Path) -> dict[str, bytes]:
    """Write a file by this project, and one by PyTorch with views, other dtypes and no tensors."""
    import torch

    write_pth(folder / "w", as_file(draw_arrays()), Quiet())
    base = torch.arange(24.0).reshape(4, 6)
    state = {"a": base.T, "b": base[1:, ::2], "c": torch.ones(3, dtype=torch.bfloat16)}
    state |= {"d": torch.nn.Parameter(torch.ones(2)), "e": torch.eye(2).to_sparse()}
    stream = io.BytesIO()
    torch.save({"model": state, "epoch": 3, "lr": [0.1, None, True], "size": base.shape}, stream)
    return {"w.pth": (folder / "w").read_bytes(), "torch.pth": stream.getvalue()}


def write_npz_seeds(_: Path) -> dict[str, bytes]:
    files = {}
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **draw_arrays(), turned=np.asfortranarray(np.ones((2, 3), np.float16)))
        files[f"{save.__name__}.npz"] = stream.getvalue()
    return files


def write_eqx_seed(_: Path) -> dict[str, bytes]:
    stream = io.BytesIO()
    for value in (*draw_arrays().values(), np.float32(2), np.ones((2, 2), np.float16)):
        np.save(stream, value)
    return {"w.eqx": stream.getvalue()}


def read_equimo_seeds(_: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(GOLDEN.glob("*.tar.lz4"))}


def write_sharded_seed(folder: Path) -> dict[str, bytes]:
    """Write an index and the two files that it names."""
    weight_map, shards, tensors = {}, {}, list(as_file(draw_arrays()).items())
    for number, part in enumerate((dict(tensors[:2]), dict(tensors[2:]))):
        name = f"model-{number}.safetensors"
        write_safetensors(folder / name, part, Quiet())
        shards[name] = (folder / name).read_bytes()
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 300}, "weight_map": weight_map}
    return {INDEX: json.dumps(index).encode()} | shards


def write_manifest_seed(_: Path) -> dict[str, bytes]:
    return {"manifest.json": to_text(folders.manifest(folders.contents())).encode()}


def change_safetensors(rng: random.Random, data: bytes) -> bytes:
    """Change the header of a file. Its length is wrong in one of ten files."""
    if rng.random() < 0.25:
        return changes.flat(rng, data)
    end = 8 + int.from_bytes(data[:8], "little")
    text = changes.change_json(rng, data[8:end])
    is_wrong = rng.random() < 0.1
    size = changes.draw_number(rng).ljust(8, b"\0") if is_wrong else len(text).to_bytes(8, "little")
    return size + text + data[end:]


def change_bytes_or_json(rng: random.Random, data: bytes) -> bytes:
    return (changes.flat if rng.random() < 0.2 else changes.change_json)(rng, data)


PICKLED = partial(archives.change_zip, change=changes.change_pickle, favourite="data.pkl")
ZIPPED = partial(archives.change_zip, change=archives.change_arrays, favourite=".npy")

FORMATS = {
    "safetensors": Format(write_safetensors_seed, change_safetensors, read_checkpoint),
    "pth": Format(write_pth_seeds, PICKLED, read_checkpoint),
    "npz": Format(write_npz_seeds, ZIPPED, read_checkpoint),
    "eqx": Format(write_eqx_seed, archives.change_arrays, read_checkpoint),
    "equimo": Format(read_equimo_seeds, archives.change_equimo_archive, read_checkpoint),
    "sharded": Format(write_sharded_seed, change_bytes_or_json, read_checkpoint),
    "manifest": Format(write_manifest_seed, change_bytes_or_json, read_manifest),
}


def write_changed_file(name: str, seed: str, seeds: dict[str, bytes], folder: Path) -> Path:
    """Write a changed file, which depends on the format and the seed only. Return its path."""
    rng = random.Random(f"{name}/{seed}")
    name_of_seed = rng.choice([key for key in seeds if name != "sharded" or key == INDEX])
    path = folder / name_of_seed
    path.write_bytes(FORMATS[name].change(rng, seeds[name_of_seed]))
    return path
