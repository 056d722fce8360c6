"""Classifiers of somebody's own, exported without a model's name, beside what PyTorch computes."""

import json

import numpy as np
import onnxruntime
import pytest
import torch

from tests.references.classifiers import CLASSES, OWN


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("kind", OWN)
def test_a_checkpoint_without_a_name(kind, opset, zoo, tmp_path):
    """The same logits as where it was trained, and the same names of classes."""
    own = OWN[kind](tmp_path / "own")
    height, width = own.size
    asked = ("--size", f"{height}x{width}", "--opset", opset, "--out", "w.onnx")
    (told,) = zoo.json("export", "--weights", own.path, *asked)
    settings = json.loads((zoo.here / "w.manifest.json").read_text())
    session = onnxruntime.InferenceSession(zoo.here / "w.onnx")
    pictures = np.random.default_rng(5).standard_normal((2, 3, height, width), np.float32)
    (got,) = session.run(["logits"], {"pixel_values": pictures})
    with torch.no_grad():
        want = own.logits(torch.from_numpy(pictures)).numpy()
    print(kind, opset, abs(got - want).max(), np.ptp(want))
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)
    assert np.ptp(want) > 0.5
