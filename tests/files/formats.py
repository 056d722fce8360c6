"""The formats that are read: small valid files of each, how one is changed, and who reads it."""

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
"""The file of a checkpoint in several that names the others."""

MOST_READ = 100
"""Tensors of a file whose values are read."""


class Format(NamedTuple):
    """Valid files by name, and what makes another of the one that is read."""

    seeds: Callable[[Path], dict[str, bytes]]
    change: archives.Change
    read: Callable[[Path], object]


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = ((3, 5), (7,), (2, 3, 4), (0, 4), (1, 2, 1, 3))
    return {f"blocks.{i}.w": rng.random(shape, np.float32) for i, shape in enumerate(shapes)}


def read_checkpoint(path: Path) -> None:
    """What a file holds, and the values of what can be weights."""
    found = open_checkpoint(path).tensors.values()
    for tensor in [tensor for tensor in found if tensor.dtype in FLOATS][:MOST_READ]:
        values = tensor.read()
        assert (values.shape, values.dtype) == (tensor.shape, np.float32)


def of_safetensors(folder: Path) -> dict[str, bytes]:
    write_safetensors(folder / "w", as_file(arrays()), Quiet())
    return {"w.safetensors": (folder / "w").read_bytes()}


def of_pth(folder: Path) -> dict[str, bytes]:
    """Ours, and PyTorch's own with a wrapper, halves, a view and things that are no tensors."""
    import torch

    write_pth(folder / "w", as_file(arrays()), Quiet())
    base = torch.arange(24.0).reshape(4, 6)
    state = {"a": base.T, "b": base[1:, ::2], "c": torch.ones(3, dtype=torch.bfloat16)}
    state |= {"d": torch.nn.Parameter(torch.ones(2)), "e": torch.eye(2).to_sparse()}
    stream = io.BytesIO()
    torch.save({"model": state, "epoch": 3, "lr": [0.1, None, True], "size": base.shape}, stream)
    return {"w.pth": (folder / "w").read_bytes(), "torch.pth": stream.getvalue()}


def of_npz(_: Path) -> dict[str, bytes]:
    out = {}
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **arrays(), turned=np.asfortranarray(np.ones((2, 3), np.float16)))
        out[f"{save.__name__}.npz"] = stream.getvalue()
    return out


def of_eqx(_: Path) -> dict[str, bytes]:
    stream = io.BytesIO()
    for value in (*arrays().values(), np.float32(2), np.ones((2, 2), np.float16)):
        np.save(stream, value)
    return {"w.eqx": stream.getvalue()}


def of_equimo(_: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(GOLDEN.glob("*.tar.lz4"))}


def of_sharded(folder: Path) -> dict[str, bytes]:
    """An index, and the two files that it names."""
    places, shards, tensors = {}, {}, list(as_file(arrays()).items())
    for number, half in enumerate((dict(tensors[:2]), dict(tensors[2:]))):
        name = f"model-{number}.safetensors"
        write_safetensors(folder / name, half, Quiet())
        shards[name] = (folder / name).read_bytes()
        places |= dict.fromkeys(half, name)
    index = {"metadata": {"total_size": 300}, "weight_map": places}
    return {INDEX: json.dumps(index).encode()} | shards


def of_manifest(_: Path) -> dict[str, bytes]:
    return {"manifest.json": to_text(folders.manifest(folders.contents())).encode()}


def safetensors(rng: random.Random, data: bytes) -> bytes:
    """Another table, of its own length or of one that lies."""
    if rng.random() < 0.25:
        return changes.flat(rng, data)
    end = 8 + int.from_bytes(data[:8], "little")
    text = changes.table(rng, data[8:end])
    lies = rng.random() < 0.1
    size = changes.number(rng).ljust(8, b"\0") if lies else len(text).to_bytes(8, "little")
    return size + text + data[end:]


def table(rng: random.Random, data: bytes) -> bytes:
    return (changes.flat if rng.random() < 0.2 else changes.table)(rng, data)


PICKLED = partial(archives.zipped, change=changes.program, aim="data.pkl")
ZIPPED = partial(archives.zipped, change=archives.arrays, aim=".npy")

FORMATS = {
    "safetensors": Format(of_safetensors, safetensors, read_checkpoint),
    "pth": Format(of_pth, PICKLED, read_checkpoint),
    "npz": Format(of_npz, ZIPPED, read_checkpoint),
    "eqx": Format(of_eqx, archives.arrays, read_checkpoint),
    "equimo": Format(of_equimo, archives.compressed, read_checkpoint),
    "sharded": Format(of_sharded, table, read_checkpoint),
    "manifest": Format(of_manifest, table, read_manifest),
}


def changed(name: str, seed: str, seeds: dict[str, bytes], folder: Path) -> Path:
    """Write a file of a format that is changed, the same for the same seed."""
    rng = random.Random(f"{name}/{seed}")
    chosen = rng.choice([key for key in seeds if name != "sharded" or key == INDEX])
    path = folder / chosen
    path.write_bytes(FORMATS[name].change(rng, seeds[chosen]))
    return path
