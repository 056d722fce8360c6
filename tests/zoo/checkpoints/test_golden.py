"""`zoo golden`: seeded checkpoints, and references that are made and checked."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open

import zoo
from tests.conftest import GOLDEN
from tests.synthetic import digest, make_state
from weights import leaf_shapes, open_checkpoint
from weights.mapping import plan, source_shapes
from weights.namings.meta_names import DINOV3_VIT
from weights.progress import Quiet
from weights.synthetic import write_checkpoint
from zoo.images.pictures import pictures
from zoo.images.pixel_values import pixel_values


def layout(name):
    shapes = leaf_shapes(zoo.create(name, abstract=True))
    return source_shapes(plan(DINOV3_VIT.rules, shapes))


def test_a_streamed_checkpoint_is_the_recipes(tmp_path):
    torch = pytest.importorskip("torch")
    shapes = {key: shape for key, shape in layout("dinov3_vits16").items() if ".1" not in key}
    write_checkpoint(tmp_path / "w.pth", shapes, 3, Quiet(), {})
    want = make_state(shapes, 3)
    got = torch.load(tmp_path / "w.pth", weights_only=True)
    assert digest({key: value.float().numpy() for key, value in got.items()}) == digest(want)
    assert open_checkpoint(tmp_path / "w.pth").tensors["rope_embed.periods"].dtype == "bfloat16"


def command(*arguments, cwd, code=0):
    done = subprocess.run(
        [sys.executable, "-c", "from zoo.cli import main; main()", "golden", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.full
def test_transformers_as_reference(vits16, tmp_path):
    command("make", "dinov3_vits16", "a.safetensors", "--weights", vits16.path, cwd=tmp_path)
    with safe_open(tmp_path / "a.safetensors", "np") as made:
        assert made.get_tensor("pixel_values").shape == (1, 3, 224, 224)
        assert made.get_tensor("last_hidden_state").shape == (1, 201, 384)
        assert made.metadata()["reference"].startswith("transformers ")
    told = command("check", "a.safetensors", "--weights", vits16.path, cwd=tmp_path).stdout
    assert "FAILED" not in told
    assert (
        "exists already"
        in command(
            "make", "dinov3_vits16", "a.safetensors", "--weights", vits16.path, cwd=tmp_path, code=2
        ).stderr
    )


@pytest.mark.full
def test_a_reference_from_elsewhere(vits16, tmp_path):
    """Outputs by Meta's names; the wrong weights are noticed."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 48, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    how = zoo.info("dinov3_vits16").preprocessing
    x = pixel_values(pictures(tmp_path / "noise.png"), how, how.size)
    tokens, pooled, *_ = jax.vmap(vits16.model)(jax.numpy.asarray(x))
    np.savez(
        tmp_path / "meta.npz",
        x_norm_clstoken=pooled,
        x_storage_tokens=tokens[:, 1:5],
        x_norm_patchtokens=tokens[:, 5:],
    )
    make = ("make", "dinov3_vits16", "b.safetensors", "--weights", vits16.path)
    command(*make, "--image", "noise.png", "--reference", "meta.npz", cwd=tmp_path)
    command("check", "b.safetensors", "--weights", vits16.path, cwd=tmp_path)
    command("make", "dinov3_vits16", "other.pth", "--seed", 9, cwd=tmp_path)
    told = command("check", "b.safetensors", "--weights", "other.pth", cwd=tmp_path, code=1).stdout
    assert "FAILED" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("make", "dinov3_vits16", "a.safetensors"), "--weights"),
        (("make", "dinov3_vits61", "a.safetensors"), "did you mean"),
        (("check", "nothing.safetensors", "--weights", "w.pth"), "is missing"),
        (("check", str(GOLDEN / "dinov3_vits16.npz"), "--weights", "w"), "no sound"),
        (("check", str(GOLDEN / "equimo_v1_dinov3_nano.tar.lz4"), "--onnx", "w"), "no sound"),
    ],
)
def test_wrong_use(arguments, message, tmp_path):
    told = command(*arguments, cwd=tmp_path, code=2).stderr
    assert message in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
