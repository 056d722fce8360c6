"""`zoo weights convert` and `inspect`: the command, and PyTorch's files to the byte."""

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

from tests.formats import NANO
from tests.seeded import state_of
from tests.synthetic import save_pth
from weights import open_checkpoint
from weights.namings.meta_names import DINOV3_VIT
from weights.progress import Quiet
from weights.tensors import LazyTensor
from weights.writers.pth_writer import write_pth


def test_torch_begins_every_storage_at_a_multiple_of_64(tmp_path):
    tensors = [np.ones(shape, np.float32) for shape in ((3,), (2, 5), (1,), ())]
    lazies = [LazyTensor(array.shape, "float32", lambda a=array: a) for array in tensors]
    write_pth(tmp_path / "w.pth", {f"t{i}": t for i, t in enumerate(lazies)}, Quiet())
    with zipfile.ZipFile(tmp_path / "w.pth") as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            if "/data/" in info.filename:
                raw = (tmp_path / "w.pth").read_bytes()[info.header_offset :]
                names = int.from_bytes(raw[26:28], "little") + int.from_bytes(raw[28:30], "little")
                assert (info.header_offset + 30 + names) % 64 == 0
    assert torch.load(tmp_path / "w.pth", weights_only=True)["t3"].shape == ()


def command(*arguments, cwd, code=0):
    done = subprocess.run(
        [sys.executable, "-c", "from zoo.cli import main; main()", "weights", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


MODEL = ("--model", "dinov3_vits16")


@pytest.mark.full
def test_around_the_formats(vits16, tmp_path):
    """Meta to Equimo to transformers to Meta: at the end the file's tensors are there again."""
    steps = ("a.tar.lz4", "folder", "b.pth")
    source = vits16.path
    for step in steps:
        told = command("convert", source, tmp_path / step, *MODEL, cwd=tmp_path).stdout
        assert "dinov3_vits16 for" in told
        assert ("rounded to bfloat16" in told) == (step == "b.pth")
        source = tmp_path / step
    got = open_checkpoint(source).tensors
    for key, value in vits16.state.items():
        wanted = value * vits16.state[f"{key}_mask"] if key.endswith("qkv.bias") else value
        np.testing.assert_array_equal(got[key].read(), wanted, err_msg=key)
    told = command("inspect", tmp_path / "folder", cwd=tmp_path).stdout
    for words in ("Hugging Face transformers", "dinov3_vits16", "safetensors", "computed"):
        assert words in told
    again = command("convert", source, tmp_path / "a.tar.lz4", *MODEL, cwd=tmp_path, code=2)
    assert "--force" in again.stderr
    assert json.loads((tmp_path / "folder" / "config.json").read_text())["hidden_size"] == 384


def test_force_replaces_what_the_command_writes_and_nothing_else(vits16, tmp_path):
    folder = tmp_path / "home"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "cat.png").write_bytes(b"mine")
    (folder / "config.json").write_text("{}")
    command("convert", vits16.path, folder, "--force", *MODEL, cwd=tmp_path)
    assert (folder / "photos" / "cat.png").read_bytes() == b"mine"
    names = {path.name for path in folder.iterdir()}
    assert names == {"photos", "config.json", "preprocessor_config.json", "model.safetensors"}
    assert json.loads((folder / "config.json").read_text())["hidden_size"] == 384
    # A folder is never replaced by a file, nor mixed with a checkpoint in several files.
    (tmp_path / "w.pth").mkdir()
    told = command("convert", vits16.path, "w.pth", "--force", cwd=tmp_path, code=2).stderr
    assert "w.pth is a folder" in told and (tmp_path / "w.pth").is_dir()
    (folder / "model.safetensors.index.json").write_text("{}")
    told = command("convert", vits16.path, folder, "--force", *MODEL, cwd=tmp_path, code=2).stderr
    assert "in several files" in " ".join(told.split())


def test_wrong_use(vits16, tmp_path):
    small = tmp_path / "small.pth"
    save_pth(small, state_of(NANO, DINOV3_VIT, 1))
    for arguments, message in (
        (("convert", vits16.path, "a.txt"), "does not say which format to write"),
        (("convert", small, "a.pth"), "fits no model of the zoo"),
        (("convert", vits16.path, "a.pth", "--model", "dinov3_vitb16"), "not dinov3_vitb16"),
        # EUPE's file of this size has the same keys and shapes, and another licence.
        (("convert", vits16.path, "a.pth"), "fits dinov3_vits16 and eupe_vits16: say which"),
        (("inspect", "nothing.pth"), "does not exist"),
    ):
        told = command(*arguments, cwd=tmp_path, code=2).stderr
        assert message in told
        assert told.startswith("error: ")
        assert told.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["small.pth"]


@pytest.mark.full
def test_a_full_disk_leaves_nothing(vits16, tmp_path):
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000)); "
        "from zoo.cli import main; main()"
    )
    for name in ("a.pth", "a.tar.lz4", "folder"):
        done = subprocess.run(
            [sys.executable, "-c", code, "weights", "convert", str(vits16.path), name, *MODEL],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert f"cannot write {name} (File too large)" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(tmp_path.iterdir()) == []
