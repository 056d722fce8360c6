"""Real weights, where somebody has them.

- `DINO_EQX_WEIGHTS`: a checkpoint, in any format. With it: `DINO_EQX_VARIANT` (a model's name, if
  the checkpoint fits several), `DINO_EQX_IMAGE` (a picture; ours by default), `DINO_EQX_EXPECTED`
  (an `.npz` with the reference's outputs for it; transformers is run otherwise) and
  `DINO_EQX_ONNX` (an exported file to check as well).
- `ZOO_WEIGHTS_DIR`: a folder, every checkpoint in it.
"""

import os
from pathlib import Path

import pytest

from weights import open_checkpoint
from weights.errors import WeightsError
from zoo import info
from zoo.checkpoints import golden
from zoo.checkpoints.load import load_checkpoint, open_named, variants
from zoo.images.photograph import photographs
from zoo.images.pictures import pictures
from zoo.images.pixel_values import pixel_values


def variable(name):
    return Path(os.environ[name]).expanduser() if os.environ.get(name) else None


def model_of(path):
    """The entry that a checkpoint belongs to."""
    name = os.environ.get("DINO_EQX_VARIANT") or variants(open_checkpoint(path))[0]
    return info(name)


def reference(entry, loaded):
    """What it must give, for an image that is named or ours."""
    image, expected = variable("DINO_EQX_IMAGE"), variable("DINO_EQX_EXPECTED")
    how = entry.preprocessing
    pixels = pixel_values(pictures(image) if image else photographs(1), how, how.size)
    return golden.make(entry, loaded, pixels, str(expected or "transformers"))


def assert_within(errors, limit):
    assert all(error <= limit for error in errors.values()), errors


@pytest.mark.skipif(
    not os.environ.get("DINO_EQX_WEIGHTS"),
    reason="DINO_EQX_WEIGHTS names no checkpoint, so no pretrained model is tested",
)
def test_the_named_checkpoint():
    path = variable("DINO_EQX_WEIGHTS")
    entry = model_of(path)
    loaded = load_checkpoint(open_named(path), entry)
    wanted = reference(entry, loaded)
    assert_within(golden.check_jax(wanted, loaded), golden.JAX_ATOL)
    file = variable("DINO_EQX_ONNX")
    if file is not None:
        assert_within(golden.check_onnx(wanted, file), golden.ONNX_ATOL)
    assert not loaded.weights.arrays.nonfinite


def checkpoints():
    """Every checkpoint of a model in the zoo in `ZOO_WEIGHTS_DIR`."""
    folder = variable("ZOO_WEIGHTS_DIR")
    found = []
    for path in sorted(folder.iterdir()) if folder and folder.is_dir() else ():
        try:
            found += [path] if variants(open_checkpoint(path)) else []
        except WeightsError:
            continue  # something else lies there too
    return found


@pytest.mark.skipif(
    not os.environ.get("ZOO_WEIGHTS_DIR"),
    reason="ZOO_WEIGHTS_DIR names no folder of checkpoints, so none is tested",
)
def test_every_checkpoint_in_the_folder():
    found = checkpoints()
    assert found, "no checkpoint of a model in the zoo lies in ZOO_WEIGHTS_DIR"
    for path in found:
        entry = info(variants(open_checkpoint(path))[0])
        loaded = load_checkpoint(open_named(path), entry)
        how = entry.preprocessing
        pixels = pixel_values(photographs(1), how, how.size)
        wanted = golden.make(entry, loaded, pixels, "transformers")
        assert_within(golden.check_jax(wanted, loaded), golden.JAX_ATOL)
