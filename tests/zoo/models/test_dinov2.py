"""DINOv2 against outputs of the original network, in JAX and as ONNX at every kind of opset."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

import converter
import zoo
from converter.verify.sessions import run
from tests.conftest import GOLDEN
from tests.seeded import leaves_of, state_of
from tests.synthetic import digest, make_image
from weights import bind
from weights.namings.meta import DINOV2_VIT
from zoo.models.build import abstract, batched

ATOL = 3e-5
"""Measured: 6e-6. The reference's own float32 noise is 7e-6."""

ONNX_ATOL = 1e-4

VARIANTS = ("dinov2_vits14", "dinov2_vits14_reg")
SIZES = ("224x224", "280x420", "518x518")


@eqx.filter_jit
def forward(model, image, layers=(), as_maps=False):
    return model(image, layers, as_maps=as_maps)


@pytest.fixture(scope="module", params=VARIANTS)
def golden(request):
    return load_golden(request.param)


def load_golden(variant):
    """The model with the golden file's weights, and that file."""
    expected = np.load(GOLDEN / f"{variant}.npz")
    config = zoo.info(variant).config
    state = state_of(config, DINOV2_VIT, int(expected["seed"]))
    assert digest(state) == str(expected["state_sha256"]), "another stream of random numbers"
    return bind(abstract(config), leaves_of(config, DINOV2_VIT, state)), expected


def registers_of(model):
    return 0 if model.reg_tokens is None else len(model.reg_tokens)


def at(expected, size):
    """The arrays of one size, and its image."""
    case = {k.removeprefix(f"{size}/"): v for k, v in expected.items() if k.startswith(f"{size}/")}
    image = make_image(int(case["image_seed"]), *map(int, size.split("x")))
    assert digest({"image": image[None]}) == str(case["image_sha256"])
    return case, image


def assert_tokens(tokens, case, registers, atol):
    tokens = np.asarray(tokens)
    patches = tokens[1 + registers :]
    pairs = {
        "class": (tokens[0], case["x_norm_clstoken"][0]),
        "registers": (tokens[1 : 1 + registers], case["x_storage_tokens"][0]),
        "patches": (patches[case["patch_indices"]], case["x_norm_patchtokens_16"][0]),
        "mean": (patches.mean(0), case["patch_mean"][0]),
    }
    assert len(patches) == case["num_patches"]
    for what, (got, want) in pairs.items():
        np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=what)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_the_original(size, golden):
    model, expected = golden
    case, image = at(expected, size)
    tokens, pooled, *_ = forward(model, image)
    assert_tokens(tokens, case, registers_of(model), ATOL)
    np.testing.assert_array_equal(pooled, tokens[0])


@pytest.mark.parametrize("size", SIZES)
def test_positions_are_interpolated_as_the_original_does(size, golden):
    model, expected = golden
    case, image = at(expected, size)
    table = model.global_pos_embed(image.shape[1] // 14, image.shape[2] // 14)
    # torch's own weights are off by as much where the image is stretched unevenly
    np.testing.assert_array_equal(table[0], case["pos_embed_cls"][0])
    patches = np.asarray(table[1:])[case["patch_indices"]]
    np.testing.assert_allclose(patches, case["pos_embed_16"], rtol=0, atol=1e-5)


@pytest.mark.full
def test_layers_agree_with_the_original():
    model, expected = load_golden("dinov2_vits14_reg")
    case, image = at(expected, "224x224")
    # Ours are counted from 1.
    layers = tuple(int(layer) + 1 for layer in case["intermediate_norm/layers"])
    first = 1 + registers_of(model)
    found = forward(model, image, layers).hidden_states
    maps = forward(model, image, layers, as_maps=True).hidden_states
    chosen = case["intermediate_norm/patch_4_indices"]
    for number, (tokens, grid) in enumerate(zip(found, maps, strict=True)):
        token, patches = (case[f"intermediate_norm/{what}"][number] for what in ("cls", "patch_4"))
        np.testing.assert_allclose(tokens[0], token[0], rtol=0, atol=ATOL)
        np.testing.assert_allclose(tokens[first:][chosen], patches[0], rtol=0, atol=ATOL)
        assert grid.shape == (384, 16, 16)
        rows, columns = np.divmod(chosen, 16)
        np.testing.assert_allclose(grid[:, rows, columns].T, patches[0], rtol=0, atol=ATOL)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", SIZES[:2])
@pytest.mark.parametrize("opset", [18, 20, 23, 24])
def test_onnx_agrees_with_the_original(opset, size, golden, tmp_path):
    model, expected = golden
    case, image = at(expected, size)
    export = converter.to_onnx(
        batched,
        [("batch_size", *image.shape)],
        params=model,
        opset=opset,
        input_names=["pixel_values"],
    )
    export.save(tmp_path / "model.onnx")
    outputs = run(tmp_path / "model.onnx", [image[None]])
    assert_tokens(outputs["last_hidden_state"][0], case, registers_of(model), ONNX_ATOL)
    np.testing.assert_allclose(
        outputs["pooler_output"], case["x_norm_clstoken"], rtol=0, atol=ONNX_ATOL
    )


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 0.0},
        {"antialias": True},
        {"offset": 0.0, "antialias": True},
    ],
)
def test_another_rule_for_positions_is_told_apart(change, golden):
    """Each setting of the other variant moves the positions far beyond rounding."""
    model, expected = golden
    if registers_of(model):
        change = {"offset": 0.1} if len(change) == 1 else {"antialias": False}
    case, _ = at(expected, "224x224")
    config = zoo.info(VARIANTS[registers_of(model) > 0]).config
    config = replace(config, positions=replace(config.positions, **change))
    other = bind(abstract(config).global_pos_embed, {"weight": model.global_pos_embed.weight})
    patches = np.asarray(other(16, 16)[1:])[case["patch_indices"]]
    assert np.abs(patches - case["pos_embed_16"]).max() > 1e-3
