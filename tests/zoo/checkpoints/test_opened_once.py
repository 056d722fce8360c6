"""A checkpoint is opened once, and its table of tensors is read once, whatever is asked of it.

The operating system is asked: Python reports every `open` to audit hooks, and Linux counts the
bytes that a process has read.
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
from tests.conftest import GOLDEN
from weights import open_checkpoint
from weights.namings.meta_names import DINOV3_VIT
from weights.views import views_of
from zoo.architectures.builder import abstract
from zoo.architectures.entry import DATA
from zoo.checkpoints.identify import identify_checkpoint, summarize_checkpoint
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.source import GivenCheckpoint
from zoo.cli.console import run_command
from zoo.cli.export_command import app

OPENED: list[str] = []
"""Files that were opened while `counted` runs."""

TABLE = 3_000_000
"""Bytes of the table of the checkpoint here."""

COUNTERS = Path("/proc/self/io")


def record(event, args):
    if event == "open" and isinstance(args[0], str | bytes | os.PathLike):
        OPENED.append(os.fsdecode(args[0]))


sys.addaudithook(record)


@contextmanager
def counted(path: Path) -> Iterator[list[str]]:
    """The times that a file is opened in a block."""
    OPENED.clear()
    opened: list[str] = []
    yield opened
    opened += [each for each in OPENED if Path(each).name == path.name]


def read_so_far() -> int:
    """Bytes that this process has read."""
    return int(COUNTERS.read_text().split()[1])


def saved(path: Path, size: int) -> Path:
    """A checkpoint of a training script: `vit_digits`, the state of an optimizer, of which a file
    system keeps nothing but the size, and remarks as long as `TABLE`."""
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


def export(path: Path) -> None:
    words = ["--weights", str(path), "--out", str(path.with_name("out")), "--name", "own"]
    assert run_command(app, [*words, "--licence", "mit"]) == 0


USES = {
    "zoo weights inspect": lambda path: summarize_checkpoint(GivenCheckpoint(path)),
    "zoo.from_pretrained": zoo.from_pretrained,
    "zoo export": export,
}
SIZES = [4_000_000, pytest.param(300_000_000, marks=pytest.mark.full)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("use", USES)
def test_a_checkpoint_is_opened_once(use, size, tmp_path):
    path = saved(tmp_path / "own.safetensors", size)
    with counted(path) as opened:
        USES[use](path)
    assert len(opened) == 1


@pytest.mark.skipif(not COUNTERS.exists(), reason="Linux alone counts the bytes of a process")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("use", "passes", "values"), [("zoo weights inspect", 0, 0), ("zoo.from_pretrained", 1, 1)]
)
def test_a_table_is_read_once(use, passes, values, size, tmp_path):
    """Beside it there is one pass over the file for its digest, and one over what is used."""
    USES[use](saved(tmp_path / "first.safetensors", 4))  # imports read files, too
    path = saved(tmp_path / "own.safetensors", size)
    before = read_so_far()
    USES[use](path)
    used = (DATA / "vit_digits.safetensors").stat().st_size
    expected = TABLE + passes * path.stat().st_size + values * used
    assert 0 <= read_so_far() - before - expected < TABLE / 2


def torch_file(path):
    torch.save({"a.weight": torch.ones(3, 4), "b": torch.ones(7)[::2]}, path)


def numpy_file(path, save):
    save(path, **{"a": np.ones((3, 4), np.float32), "b": np.ones((4, 3), np.float32).T})


def sharded(path):
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    for key, name in names.items():
        save_file({key: np.ones(3, np.float32)}, path.with_name(name))
    path.write_text(json.dumps({"weight_map": names}))


def leaves(path):
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 3), np.float32))
    path.write_bytes(buffer.getvalue())


def archive(path):
    path.write_bytes((GOLDEN / "equimo_v2_dinov2_nano.tar.lz4").read_bytes())


CONTAINERS = {
    "w.safetensors": lambda path: save_file({"a": np.ones(3, np.float32)}, path),
    "w.pth": torch_file,
    "w.npz": partial(numpy_file, save=np.savez),
    "deflated.npz": partial(numpy_file, save=np.savez_compressed),
    "model.safetensors.index.json": sharded,
    "w.eqx": leaves,
    "w.tar.lz4": archive,
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_opened_once(name, tmp_path):
    """To recognise it, to list its tensors, to read them all, and for its digest."""
    path = tmp_path / name
    CONTAINERS[name](path)
    with counted(path) as opened:
        checkpoint = open_checkpoint(path)
        for tensor in checkpoint.tensors.values():
            tensor.read()
        checkpoint.sha256()
    assert len(opened) == 1
    files = [each.path.name for each in checkpoint.files]
    inside = [Path(each).name for each in OPENED if str(tmp_path) in each]
    assert sorted({*files, name}) == sorted(inside)


def test_a_closed_checkpoint_is_not_read(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"a": np.ones(3, np.float32)}, path)
    checkpoint = open_checkpoint(path)
    checkpoint.close()
    with pytest.raises(ValueError, match="closed file"):
        checkpoint.tensors["a"].read()


def test_one_network_is_built_to_identify_a_checkpoint(tmp_path):
    """Networks of many entries have its leaves; they are ranked before one is built."""
    path = saved(tmp_path / "own.safetensors", 4)
    abstract.cache_clear()
    model_shapes.cache_clear()
    entry, _ = identify_checkpoint(GivenCheckpoint(path))
    assert entry.family == "digits" and abstract.cache_info().misses == 1


def test_views_are_looked_for_once(tmp_path):
    """Whoever asks; and that of a network is its own."""
    checkpoint = open_checkpoint(saved(tmp_path / "own.safetensors", 4))
    (first,) = views_of(checkpoint)(DINOV3_VIT)
    (second,) = views_of(checkpoint)(DINOV3_VIT)
    assert first is second and views_of(first)(DINOV3_VIT) == (first,)
