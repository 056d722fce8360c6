"""Real weights, where somebody has them; seeded ones stand in elsewhere.

- `DINO_EQX_WEIGHTS`: a checkpoint, in any format. With it: `DINO_EQX_VARIANT` (a model's name, if
  the checkpoint fits several), `DINO_EQX_IMAGE` (a picture; ours by default), `DINO_EQX_EXPECTED`
  (an `.npz` with the reference's outputs for it; transformers is run otherwise) and
  `DINO_EQX_ONNX` (an exported file to check as well).
- `ZOO_WEIGHTS_DIR`: a folder, every checkpoint in it.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from weights import open_checkpoint
from weights.errors import WeightsError
from zoo import info
from zoo.checkpoints import golden
from zoo.checkpoints.load import fitting_models, load_checkpoint, open_named
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.images.photograph import photographs
from zoo.images.pictures import pictures
from zoo.images.pixel_values import pixel_values
from zoo.models.builder import abstract

pytestmark = pytest.mark.full


def variable(name):
    return Path(os.environ[name]).expanduser() if os.environ.get(name) else None


def loaded_from(path):
    """The entry that a checkpoint belongs to, and what it holds."""
    entry = info(os.environ.get("DINO_EQX_VARIANT") or fitting_models(open_checkpoint(path))[0])
    return entry, load_checkpoint(open_named(path), entry)


def reference(entry, loaded):
    """What it must give, for an image that is named or ours."""
    image, expected = variable("DINO_EQX_IMAGE"), variable("DINO_EQX_EXPECTED")
    how = entry.preprocessing
    pixels = pixel_values(pictures(image) if image else photographs(1), how, how.size)
    return golden.make(entry, loaded, pixels, str(expected or "transformers"))


def is_within(errors, limit):
    return all(error <= limit for error in errors.values())


def test_the_named_checkpoint(vits16, tmp_path):
    entry, loaded = loaded_from(variable("DINO_EQX_WEIGHTS") or vits16.path)
    wanted = reference(entry, loaded)
    assert is_within(golden.check_jax(wanted, loaded), golden.JAX_ATOL)
    file = variable("DINO_EQX_ONNX")
    if file is None:
        file = tmp_path / "model.onnx"
        export = convert_model(
            abstract(loaded.config), 23, Signature(entry.preprocessing.size, None)
        )
        export.save(file, loaded.weights.arrays)
    assert is_within(golden.check_onnx(wanted, file), golden.ONNX_ATOL)
    assert not loaded.weights.arrays.nonfinite
    wrong = {name: array + 1e-3 for name, array in wanted.outputs.items()}
    np.savez(tmp_path / "wrong.npz", **wrong)
    other = golden.make(entry, loaded, wanted.fed, str(tmp_path / "wrong.npz"))
    assert not is_within(golden.check_jax(other, loaded), golden.JAX_ATOL)


def checkpoints(folder):
    """Every checkpoint of a model in the zoo."""
    for path in sorted(folder.iterdir()):
        try:
            if fitting_models(open_checkpoint(path)):
                yield path
        except WeightsError:
            continue  # something else lies there too


def test_every_checkpoint_in_the_folder(vits16):
    found = list(checkpoints(variable("ZOO_WEIGHTS_DIR") or vits16.path.parent))
    assert found, "no checkpoint of a model in the zoo lies in ZOO_WEIGHTS_DIR"
    for path in found:
        entry, loaded = loaded_from(path)
        errors = golden.check_jax(reference(entry, loaded), loaded)
        assert is_within(errors, golden.JAX_ATOL), errors
