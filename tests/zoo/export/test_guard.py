"""The tests of pretrained models do run where there are weights: seeded ones stand in."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import converter
from tests.loading import load
from weights import leaf_shapes
from zoo import create, info
from zoo.checkpoints import golden
from zoo.checkpoints.load import load_checkpoint, open_named
from zoo.images.pictures import pictures
from zoo.images.pixel_values import pixel_values
from zoo.models.build import batched

ROOT = Path(__file__).parents[3]
PLACE = "tests/zoo/export/test_pretrained.py"


def pretrained(*options, code=0, **variables):
    ours = ("DINO_EQX", "ZOO_", "PYTEST")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    command = [sys.executable, "-m", "pytest", "-n0", "-rA", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, PLACE],
        env=clean | {key: str(value) for key, value in variables.items()},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.full
def test_skipped_with_a_reason():
    told = pretrained()
    assert "DINO_EQX_WEIGHTS names no checkpoint" in told
    assert "ZOO_WEIGHTS_DIR names no folder" in told


@pytest.mark.full
def test_runs_with_everything_named(vits16, tmp_path):
    entry = info("dinov3_vits16")
    noise = np.random.default_rng(4).integers(0, 256, (90, 70, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "image.png")
    weights = load_checkpoint(open_named(vits16.path), entry)
    how = entry.preprocessing
    pixels = pixel_values(pictures(tmp_path / "image.png"), how, how.size)
    expected = golden.make(entry, weights, pixels, "transformers")
    golden.write(tmp_path / "expected.npz", expected)
    model = create("dinov3_vits16", abstract=True)
    export = converter.to_onnx(
        batched,
        [("batch_size", 3, 224, 224)],
        params=model,
        input_names=["pixel_values"],
        output_names=["last_hidden_state", "pooler_output"],
    )
    values = load(vits16.path, leaf_shapes(model)).arrays
    export.save(tmp_path / "model.onnx", values=values)
    named = {
        "DINO_EQX_WEIGHTS": vits16.path,
        "DINO_EQX_IMAGE": tmp_path / "image.png",
        "DINO_EQX_EXPECTED": tmp_path / "expected.npz",
        "DINO_EQX_VARIANT": "dinov3_vits16",
        "DINO_EQX_ONNX": tmp_path / "model.onnx",
    }
    assert f"PASSED {PLACE}::test_the_named_checkpoint" in pretrained(**named)
    wrong = {name: array + 1e-3 for name, array in expected.outputs.items()}
    np.savez(tmp_path / "expected.npz", **wrong)
    assert "FAILED" in pretrained(code=1, **named)


@pytest.mark.full
def test_runs_on_a_folder(vits16):
    told = pretrained(ZOO_WEIGHTS_DIR=vits16.path.parent)
    assert f"PASSED {PLACE}::test_every_checkpoint_in_the_folder" in told
