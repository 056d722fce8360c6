"""The networks beside outputs of the originals that are stored, in JAX and as ONNX."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import equinox as eqx
import numpy as np
import pytest

import zoo
from converter.verify.sessions import run
from tests.conftest import GOLDEN, TINY7B
from tests.seeded import leaves_of, state_of
from tests.synthetic import digest, make_image
from weights import bind
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.models.builder import Model, abstract, batched

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


@dataclass(frozen=True)
class Original:
    """A network with the seeded weights, and what the original made of them."""

    model: Model
    expected: dict[str, np.ndarray]

    def at(self, size: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Two images, and what is stored for the second."""
        start = f"{size}/"
        case = {k.removeprefix(start): v for k, v in self.expected.items() if k.startswith(start)}
        image = make_image(int(case["image_seed"]), *map(int, size.split("x")))[None]
        assert digest({"image": image}) == str(case["image_sha256"])
        return np.concatenate([make_image(1, *image.shape[2:])[None], image]), case

    def assert_outputs(self, hidden, pooled, case, atol):
        """Of one image."""
        hidden, first = np.asarray(hidden), self.model.prefix_tokens
        patches = hidden[first:]
        assert len(patches) == case["num_patches"]
        for got, want in (
            (pooled, case["x_norm_clstoken"][0]),
            (hidden[0], case["x_norm_clstoken"][0]),
            (hidden[1:first], case["x_storage_tokens"][0]),
            (patches[case["patch_indices"]], case["x_norm_patchtokens_16"][0]),
            (patches.mean(0), case["patch_mean"][0]),
        ):
            np.testing.assert_allclose(got, want, rtol=0, atol=atol)


@lru_cache(1)
def original(name) -> Original:
    with np.load(GOLDEN / f"{name}.npz") as file:
        expected = dict(file)
    entry = zoo.info("dinov3_vit7b16" if name == "dinov3_tiny7b" else name)
    config, naming = TINY7B if "tiny7b" in name else entry.config, entry.namings[0]
    state = state_of(config, naming, int(expected["seed"]))
    assert digest(state) == str(expected["state_sha256"]), "other keys, or other random numbers"
    model = bind(abstract(config), leaves_of(config, naming, state))
    return Original(model, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "size"), [(name, size) for name in SIZES for size in SIZES[name]])
def test_in_jax(name, size):
    images, case = original(name).at(size)
    hidden, pooled, *_ = forward(original(name).model, images)
    original(name).assert_outputs(hidden[1], pooled[1], case, ATOL)


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


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "opset", "layout", "size"), FILES)
def test_in_a_file(name, opset, layout, size, tmp_path):
    """In a batch that is open."""
    signature = Signature(tuple(map(int, size.split("x"))), None)
    convert_model(original(name).model, opset, signature, layout).save(tmp_path / "model.onnx")
    images, case = original(name).at(size)
    hidden, pooled, *_ = run(tmp_path / "model.onnx", [images]).values()
    original(name).assert_outputs(hidden[1], pooled[1], case, ONNX_ATOL)


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


@pytest.mark.sampled(4, full=1)
@pytest.mark.parametrize("as_maps", [False, True])
@pytest.mark.parametrize("name", [name for name in SIZES if name != "dinov2_vits14"])
def test_hidden_states(name, as_maps, tmp_path):
    """In JAX and in a file, as tokens or as maps of the patches."""
    images, case = original(name).at("224x224")
    model, wanted = original(name).model, list(states(case))
    layers = tuple(layer for layer, *_ in wanted)
    in_jax = forward(model, images, layers, as_maps=as_maps).hidden_states
    signature = Signature((224, 224), None, layers, as_maps)
    convert_model(model, 23, signature).save(tmp_path / "model.onnx")
    in_file = run(tmp_path / "model.onnx", [images])
    for (layer, cls, patches, which), found in zip(wanted, in_jax, strict=True):
        for got, atol in ((found, ATOL), (in_file[f"hidden_state_{layer}"], ONNX_ATOL)):
            got = np.asarray(got[1])
            rows = got.reshape(len(got), -1).T if as_maps else got[model.prefix_tokens :]
            if as_maps:
                assert got.shape[1] == got.shape[2]
            else:
                np.testing.assert_allclose(got[0], cls, rtol=0, atol=atol)
            np.testing.assert_allclose(rows[which], patches, rtol=0, atol=atol)
