"""`zoo weights convert` and `inspect`: the result loads in the library that it is for."""

import json
import os
import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import pytest
import torch

import zoo
from tests import loading
from tests.formats import CONFIGS, NANO, huggingface_model, seeded
from tests.loading import naming_of
from tests.synthetic import make_image, save_pth
from weights import bind, open_checkpoint
from weights.progress import Quiet
from weights.tensors import LazyTensor
from weights.writers.equimo import write_archive
from weights.writers.items import items_for
from weights.writers.pth import write_pth
from zoo.checkpoints.convert import write, write_folder
from zoo.checkpoints.load import shapes as shapes_of
from zoo.checkpoints.settings.equimo import equimo_metadata
from zoo.models.build import abstract

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ENTRY = zoo.info("dinov3_vits16")


forward = eqx.filter_jit(lambda model, image: model(image))


class Silent:
    def stage(self, text, total=None):
        pass

    def step(self, size):
        pass


@pytest.fixture(params=CONFIGS)
def source(request, tmp_path):
    """A configuration, its state and its weights."""
    config = CONFIGS[request.param]
    state = seeded(config, 17)
    save_pth(tmp_path / "source.pth", state)
    return config, state, load(config, tmp_path / "source.pth")


def load(config, path):
    return loading.load(path, shapes_of(config))


def items(naming, config, weights):
    return items_for(naming_of(zoo.info("dinov3_vits16"), naming), weights, shapes_of(config))


def test_meta(source, tmp_path):
    config, state, weights = source
    write("meta", tmp_path / "w.pth", items("meta", config, weights), ENTRY, Silent())
    for mmap in (False, True):
        got = torch.load(tmp_path / "w.pth", weights_only=True, mmap=mmap)
        assert {key: tuple(value.shape) for key, value in got.items()} == {
            key: value.shape for key, value in state.items()
        }
        assert {key for key, value in got.items() if value.dtype != torch.float32} == {
            "rope_embed.periods"
        }
        assert got["rope_embed.periods"].dtype == torch.bfloat16
        for key, value in state.items():
            if key.endswith("qkv.bias"):
                mask = state[f"{key}_mask"]
                np.testing.assert_array_equal(got[f"{key}_mask"].numpy(), mask)
                value, got[key] = value * mask, got[key] * torch.from_numpy(mask)
            np.testing.assert_array_equal(got[key].float().numpy(), value, err_msg=key)


def test_torch_begins_every_storage_at_a_multiple_of_64(tmp_path):
    tensors = [np.ones(shape, np.float32) for shape in ((3,), (2, 5), (1,), ())]
    lazies = [LazyTensor(array.shape, "float32", lambda a=array: a) for array in tensors]
    write_pth(tmp_path / "w.pth", {f"t{i}": t for i, t in enumerate(lazies)}, Quiet())
    import zipfile

    with zipfile.ZipFile(tmp_path / "w.pth") as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            if "/data/" in info.filename:
                raw = (tmp_path / "w.pth").read_bytes()[info.header_offset :]
                names = int.from_bytes(raw[26:28], "little") + int.from_bytes(raw[28:30], "little")
                assert (info.header_offset + 30 + names) % 64 == 0
    assert torch.load(tmp_path / "w.pth", weights_only=True)["t3"].shape == ()


@pytest.mark.full
def test_equimo(source, tmp_path):
    from equimo.io import load_model

    config, _, weights = source
    path = tmp_path / "model.tar.lz4"
    write_archive(path, items("equimo", config, weights), equimo_metadata(config), Quiet())
    image = jax.numpy.asarray(make_image(1, 48, 64))
    with jax.numpy_dtype_promotion("standard"):
        theirs = load_model("vit", path=path)
        want = theirs.forward_features(image, key=jax.random.key(0), inference=True)
    tokens, pooled, *_ = forward(bind(abstract(config), weights.arrays), image)
    np.testing.assert_allclose(pooled, want["x_norm_cls_token"], rtol=0, atol=3e-5)
    np.testing.assert_allclose(tokens[5:], want["x_norm_patchtokens"], rtol=0, atol=3e-5)
    again = load(config, path).arrays
    for name in again:
        np.testing.assert_array_equal(again[name], weights.arrays[name], err_msg=name)


def test_huggingface(source, tmp_path):
    config, state, _ = source
    check_huggingface(config, state, tmp_path, key_bias=False)


def test_huggingface_with_a_bias_of_the_keys(tmp_path):
    state = seeded(NANO, 3)
    state |= {key: np.ones_like(v) for key, v in state.items() if key.endswith("bias_mask")}
    check_huggingface(NANO, state, tmp_path, key_bias=True)


def check_huggingface(config, state, tmp_path, key_bias):
    from dataclasses import replace

    from transformers import DINOv3ViTModel

    save_pth(tmp_path / "w.pth", state)
    weights = load(config, tmp_path / "w.pth")
    entry = replace(ENTRY, config=config)
    write_folder(tmp_path / "hf", items("huggingface", config, weights), entry, Silent())
    model, report = DINOv3ViTModel.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.config.key_bias == key_bias
    model.rope_embeddings.inv_freq = 1 / torch.from_numpy(state["rope_embed.periods"].copy())
    image = make_image(2, 48, 80)
    with torch.no_grad():
        want = model.eval()(torch.from_numpy(image[None])).last_hidden_state[0].numpy()
    tokens, *_ = forward(bind(abstract(config), weights.arrays), jax.numpy.asarray(image))
    np.testing.assert_allclose(tokens, want, rtol=0, atol=3e-5)
    again = load(config, tmp_path / "hf").arrays
    for name in again:
        if "local_cls_norm" not in name and "periods" not in name:
            np.testing.assert_array_equal(again[name], weights.arrays[name], err_msg=name)


def test_huggingfaces_own_file_has_the_same_keys(tmp_path):
    state = seeded(NANO, 1)
    huggingface_model(NANO, state).save_pretrained(tmp_path / "theirs")
    theirs = open_checkpoint(tmp_path / "theirs").tensors
    weights = load(NANO, tmp_path / "theirs")
    ours = {key: each.shape for key, each in items("huggingface", NANO, weights).items()}
    assert ours == {key: tensor.shape for key, tensor in theirs.items()}


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
    save_pth(small, seeded(NANO, 1))
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
