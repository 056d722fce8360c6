"""The networks beside outputs of the originals that are stored, in JAX and as ONNX."""

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
"""The references' own float32 noise is 7e-6; the smallest known mistake costs 5e-5."""

ONNX_ATOL = 1e-4
"""The smallest mistake that matters, LayerNorm's epsilon apart, moves outputs by 1e-3."""

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
    """Another image and the one that outputs are stored for, and those."""
    image, case = original(name).at(size)
    return np.stack([make_image(1, *image.shape[1:]), image]), case


def assert_outputs(name, hidden, pooled, case, atol):
    """Of the second image."""
    for got, want in original(name).pairs(np.asarray(hidden)[1], pooled[1], case):
        np.testing.assert_allclose(got, want, rtol=0, atol=atol)


@pytest.mark.each()
@pytest.mark.parametrize(("name", "size"), [(name, size) for name in SIZES for size in SIZES[name]])
def test_in_jax(name, size):
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
def test_in_a_file(name, opset, layout, size, tmp_path):
    """In a batch that is open."""
    signature = Signature(tuple(map(int, size.split("x"))), None)
    convert_model(original(name).model, opset, signature, layout).save(tmp_path / "model.onnx")
    images, case = two_images(name, size)
    hidden, pooled, *_ = run(tmp_path / "model.onnx", [images]).values()
    assert_outputs(name, hidden, pooled, case, ONNX_ATOL)


def states(case):
    """(layer, class token, some patches, which ones) of every layer that is stored."""
    stored = "intermediate_norm/"
    names = ("cls", "patch_4", "patch_4_indices")
    for number, layer in enumerate(case.get(f"{stored}layers", range(4))):
        if f"{stored}layers" in case:
            *found, which = (case[f"{stored}{what}"] for what in names)
            cls, patches = (each[number] for each in found)
        else:
            cls, patches, which = (case[f"{stored}{number}/{what}"] for what in names)
        # Ours are counted from 1.
        yield int(layer) + 1, cls[0], patches[0], which


@pytest.mark.each()
@pytest.mark.parametrize("as_maps", [False, True])
@pytest.mark.parametrize("name", [name for name in SIZES if name != "dinov2_vits14"])
def test_hidden_states(name, as_maps, tmp_path):
    """In JAX and in a file, as tokens or as maps of the patches."""
    images, case = two_images(name, "224x224")
    model, wanted = original(name).model, list(states(case))
    layers = tuple(layer for layer, *_ in wanted)
    in_jax = forward(model, images, layers=layers, as_maps=as_maps)
    signature = Signature((224, 224), None, layers, as_maps)
    convert_model(model, 23, signature).save(tmp_path / "model.onnx")
    in_file = run(tmp_path / "model.onnx", [images])
    for layer, cls, patches, which in wanted:
        for found, atol in ((in_jax, ATOL), (in_file, ONNX_ATOL)):
            got = np.asarray(found[f"hidden_state_{layer}"][1])
            rows = got.reshape(len(got), -1).T if as_maps else got[model.prefix_tokens :]
            if as_maps:
                assert got.shape[1] == got.shape[2]
            else:
                np.testing.assert_allclose(got[0], cls, rtol=0, atol=atol)
            np.testing.assert_allclose(rows[which], patches, rtol=0, atol=atol)
