"""A checkpoint is opened once and its table of tensors is read once, for every kind of use.

Python reports every `open` to audit hooks, and Linux counts the bytes that a process has read.
"""

import io
import json
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import zoo
from tests.command import call_zoo
from tests.conftest import GOLDEN
from weights import open_checkpoint
from weights.namings.meta_names import DINOV3_VIT
from weights.views import views_of
from zoo.architectures.builder import abstract
from zoo.architectures.entry import DATA
from zoo.checkpoints.identify import identify_checkpoint, summarize_checkpoint
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.source import GivenCheckpoint

OPENED: list[str] = []
"""Paths of the files that were opened since `count_openings` began."""

TABLE = 3_000_000
"""Bytes in the table of tensors of the checkpoint here."""

COUNTERS = Path("/proc/self/io")


def record_opening(event, args):
    """Record the path that an audit event reports as opened."""
    if event == "open" and isinstance(args[0], str | bytes | os.PathLike):
        OPENED.append(os.fsdecode(args[0]))


sys.addaudithook(record_opening)


@contextmanager
def count_openings(path: Path) -> Iterator[list[str]]:
    """Collect the openings of a file in a `with` block. The list is complete after the block."""
    OPENED.clear()
    opened: list[str] = []
    yield opened
    opened += [name for name in OPENED if Path(name).name == path.name]


def bytes_read() -> int:
    """Return the number of bytes that this process has read."""
    return int(COUNTERS.read_text().split()[1])


def save_checkpoint(path: Path, size: int) -> Path:
    """Write a checkpoint of a training script in safetensors. Return its path.

    It has `vit_digits`, an optimizer state of `size` bytes in a sparse file, and remarks that
    extend the table to `TABLE` bytes.
    """
    arrays = {k: v.astype("f4") for k, v in load_file(DATA / "vit_digits.safetensors").items()}
    table, end = {}, 0
    for key, array in arrays.items():
        offsets, end = [end, end + array.nbytes], end + array.nbytes
        table[key] = {"dtype": "F32", "shape": array.shape, "data_offsets": offsets}
    table["optimizer.mean"] = {
        **{"dtype": "F32", "shape": [size // 4], "data_offsets": [end, end + size // 4 * 4]}
    }
    table["__metadata__"] = {"remarks": "x" * (TABLE - len(json.dumps(table)))}
    header = json.dumps(table).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.write(b"".join(array.tobytes() for array in arrays.values()))
        file.truncate(8 + len(header) + end + size // 4 * 4)
    return path


def export_checkpoint(path: Path) -> None:
    words = ["--weights", str(path), "--out", str(path.with_name("out")), "--name", "own"]
    assert call_zoo("export", *words, "--licence", "mit") == 0


USES = {
    "zoo weights inspect": lambda path: summarize_checkpoint(GivenCheckpoint(path)),
    "zoo.from_pretrained": zoo.from_pretrained,
    "zoo export": export_checkpoint,
}
"""Functions that use a checkpoint, by the command or function of the zoo."""
SIZES = [4_000_000, pytest.param(300_000_000, marks=pytest.mark.full)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("use", USES)
def test_a_checkpoint_is_opened_once(use, size, tmp_path):
    path = save_checkpoint(tmp_path / "own.safetensors", size)
    with count_openings(path) as opened:
        USES[use](path)
    assert len(opened) == 1


@pytest.mark.skipif(
    not COUNTERS.exists(), reason="only Linux counts the bytes that a process reads"
)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("use", "passes", "values"), [("zoo weights inspect", 0, 0), ("zoo.from_pretrained", 1, 1)]
)
def test_a_table_is_read_once(use, passes, values, size, tmp_path):
    """In addition, the file is read once for its digest, and the used tensors are read once."""
    # Imports also read files, so that the first use is not counted.
    USES[use](save_checkpoint(tmp_path / "first.safetensors", 4))
    path = save_checkpoint(tmp_path / "own.safetensors", size)
    before = bytes_read()
    USES[use](path)
    used = (DATA / "vit_digits.safetensors").stat().st_size
    expected = TABLE + passes * path.stat().st_size + values * used
    assert 0 <= bytes_read() - before - expected < TABLE / 2


def write_torch(path):
    torch.save({"a.weight": torch.ones(3, 4), "b": torch.ones(7)[::2]}, path)


def write_numpy(path, save):
    save(path, **{"a": np.ones((3, 4), np.float32), "b": np.ones((4, 3), np.float32).T})


def write_shards(path):
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    for key, name in names.items():
        save_file({key: np.ones(3, np.float32)}, path.with_name(name))
    path.write_text(json.dumps({"weight_map": names}))


def write_leaves(path):
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 3), np.float32))
    path.write_bytes(buffer.getvalue())


def write_archive(path):
    path.write_bytes((GOLDEN / "equimo_v2_dinov2_nano.tar.lz4").read_bytes())


CONTAINERS = {
    "w.safetensors": lambda path: save_file({"a": np.ones(3, np.float32)}, path),
    "w.pth": write_torch,
    "w.npz": partial(write_numpy, save=np.savez),
    "deflated.npz": partial(write_numpy, save=np.savez_compressed),
    "model.safetensors.index.json": write_shards,
    "w.eqx": write_leaves,
    "w.tar.lz4": write_archive,
}
"""Functions that write a small checkpoint, by the file's name."""


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_opened_once(name, tmp_path):
    """One opening is enough to recognise, list, read and digest a checkpoint."""
    path = tmp_path / name
    CONTAINERS[name](path)
    with count_openings(path) as opened:
        checkpoint = open_checkpoint(path)
        for tensor in checkpoint.tensors.values():
            tensor.read()
        checkpoint.sha256()
    assert len(opened) == 1
    files = [file.path.name for file in checkpoint.files]
    inside = [Path(name).name for name in OPENED if str(tmp_path) in name]
    assert sorted({*files, name}) == sorted(inside)


def test_a_closed_checkpoint_is_not_read(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"a": np.ones(3, np.float32)}, path)
    checkpoint = open_checkpoint(path)
    checkpoint.close()
    with pytest.raises(ValueError, match="closed file"):
        checkpoint.tensors["a"].read()


def test_one_network_is_built_to_identify_a_checkpoint(tmp_path):
    """Many entries have networks with these leaves. They are ranked before one is built."""
    path = save_checkpoint(tmp_path / "own.safetensors", 4)
    abstract.cache_clear()
    model_shapes.cache_clear()
    entry, _ = identify_checkpoint(GivenCheckpoint(path))
    assert entry.family == "digits" and abstract.cache_info().misses == 1


def test_views_are_computed_once(tmp_path):
    """Every caller gets the same view, and the view of a view is the view itself."""
    checkpoint = open_checkpoint(save_checkpoint(tmp_path / "own.safetensors", 4))
    (first,) = views_of(checkpoint)(DINOV3_VIT)
    (second,) = views_of(checkpoint)(DINOV3_VIT)
    assert first is second and views_of(first)(DINOV3_VIT) == (first,)
