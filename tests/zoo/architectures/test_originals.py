"""The networks compared with stored outputs of the originals, in JAX and as ONNX."""

from itertools import product

import equinox as eqx
import numpy as np
import pytest

from converter.verify.sessions import run
from tests.measure import original
from tests.synthetic import make_image
from zoo.architectures.builder import batched
from zoo.export.make import convert_model
from zoo.export.request import Signature

ATOL = 3e-5
"""Limit of a difference in JAX.

The float32 rounding of the originals is 7e-6, and the smallest known mistake changes outputs by
5e-5.
"""

ONNX_ATOL = 1e-4
"""Limit of a difference in ONNX.

Apart from a wrong epsilon of LayerNorm, the smallest mistake that matters changes outputs by 1e-3.
"""

SIZES = {
    "dinov3_tiny7b": ("256x384", "224x224", "512x512"),
    "dinov3_vits16": ("230x250", "224x224", "256x384", "512x512"),
    "dinov2_vits14": ("280x420", "224x224", "518x518"),
    "dinov2_vits14_reg": ("280x420", "224x224", "518x518"),
    "dinov3_convnext_tiny": ("230x250", "224x224", "256x384", "512x512"),
}
OPSETS = (17, 18, 20, 21, 23, 24, 26)

forward = eqx.filter_jit(batched)


def two_images(name, size):
    """Return two images and the stored outputs, which are those of the second."""
    image, case = original(name).at(size)
    return np.stack([make_image(1, *image.shape[1:]), image]), case


def assert_outputs(name, hidden, pooled, case, atol):
    """Compare the outputs for the second image."""
    for actual, expected in original(name).pairs(np.asarray(hidden)[1], pooled[1], case):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


@pytest.mark.each()
@pytest.mark.parametrize(("name", "size"), [(name, size) for name in SIZES for size in SIZES[name]])
def test_outputs_in_jax(name, size):
    images, case = two_images(name, size)
    hidden, pooled, *_ = forward(original(name).model, images).values()
    assert_outputs(name, hidden, pooled, case, ATOL)


FILES = [
    *product(["dinov3_tiny7b"], OPSETS, ["4d", "3d"], ["256x384"]),
    *product(["dinov3_vits16"], OPSETS, ["4d"], ["224x224"]),
    ("dinov3_vits16", 23, "3d", "230x250"),
    ("dinov3_vits16", 23, "4d", "512x512"),
    *product(["dinov2_vits14", "dinov2_vits14_reg"], (18, 23), [None], ["280x420", "224x224"]),
    *product(["dinov3_convnext_tiny"], (18, 20, 23, 24), [None], ["224x224"]),
    *product(["dinov3_convnext_tiny"], (18, 23), [None], ["256x384"]),
    ("dinov3_convnext_tiny", 23, None, "230x250"),
]


@pytest.mark.each()
@pytest.mark.parametrize(("name", "opset", "layout", "size"), FILES)
def test_outputs_of_a_file(name, opset, layout, size, tmp_path):
    """The file has an open batch size."""
    signature = Signature(tuple(map(int, size.split("x"))), None)
    convert_model(original(name).model, opset, signature, layout).save(tmp_path / "model.onnx")
    images, case = two_images(name, size)
    hidden, pooled, *_ = run(tmp_path / "model.onnx", [images]).values()
    assert_outputs(name, hidden, pooled, case, ONNX_ATOL)


def states(case):
    """Yield (layer, class token, some patches, their indices) of every stored layer."""
    prefix = "intermediate_norm/"
    names = ("cls", "patch_4", "patch_4_indices")
    for number, layer in enumerate(case.get(f"{prefix}layers", range(4))):
        if f"{prefix}layers" in case:
            *stored_arrays, indices = (case[f"{prefix}{name}"] for name in names)
            cls, patches = (layers[number] for layers in stored_arrays)
        else:
            cls, patches, indices = (case[f"{prefix}{number}/{name}"] for name in names)
        # The zoo counts layers from 1.
        yield int(layer) + 1, cls[0], patches[0], indices


@pytest.mark.each()
@pytest.mark.parametrize("as_maps", [False, True])
@pytest.mark.parametrize("name", [name for name in SIZES if name != "dinov2_vits14"])
def test_hidden_states(name, as_maps, tmp_path):
    """Hidden states agree in JAX and in a file, as tokens or as maps of the patches."""
    images, case = two_images(name, "224x224")
    model, expected = original(name).model, list(states(case))
    layers = tuple(layer for layer, *_ in expected)
    in_jax = forward(model, images, layers=layers, as_maps=as_maps)
    signature = Signature((224, 224), None, layers, as_maps)
    convert_model(model, 23, signature).save(tmp_path / "model.onnx")
    in_file = run(tmp_path / "model.onnx", [images])
    for layer, cls, patches, indices in expected:
        for outputs, atol in ((in_jax, ATOL), (in_file, ONNX_ATOL)):
            actual = np.asarray(outputs[f"hidden_state_{layer}"][1])
            rows = actual.reshape(len(actual), -1).T if as_maps else actual[model.prefix_tokens :]
            if as_maps:
                assert actual.shape[1] == actual.shape[2]
            else:
                np.testing.assert_allclose(actual[0], cls, rtol=0, atol=atol)
            np.testing.assert_allclose(rows[indices], patches, rtol=0, atol=atol)
