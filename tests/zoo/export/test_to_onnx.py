"""`zoo.to_onnx`: files of fine-tuned, cut and extended models, compared with JAX."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import converter
import zoo
from zoo.architectures.builder import batched
from zoo.artifacts.read import read_manifest
from zoo.common.errors import BadRequest, NotVerified
from zoo.images.photograph import photographs

ATOL = 1e-5
"""Three times the measured rounding error of these outputs of unit size (3e-6)."""


@pytest.fixture(scope="module")
def fine_tuned(vit_digits):
    """`vit_digits` with fewer blocks, another head and other weights."""
    head = eqx.nn.Linear(64, 7, key=jax.random.key(1))
    model = eqx.tree_at(lambda m: (m.blocks, m.head), vit_digits, (vit_digits.blocks[:3], head))
    return jax.tree.map(lambda leaf: leaf * 1.01, model)


class ModelAround(eqx.Module):
    """A module around a backbone, with leaves that are no arrays."""

    backbone: eqx.Module
    mlp: eqx.nn.MLP
    scale: float

    def __call__(self, image: Float[Array, "3 H W"]) -> dict[str, Array]:
        features = self.backbone(image)
        return {
            "scores": self.scale * self.mlp(features.pooler_output),
            "patches": features.last_hidden_state[5:],
        }


def jax_outputs(model, pixels, layers=()):
    """Return the outputs in JAX by the names that they have in a file."""
    return batched(model, pixels, layers=layers)


def assert_outputs(file, pixels, expected):
    """Assert that the file has exactly these outputs, with these values."""
    actual = converter.run(file, [np.asarray(pixels)])
    assert set(actual) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=ATOL, err_msg=name)


def test_requested_attention(vit_digits, tmp_path):
    options = {"layers": (2, 4), "outputs": ("logits", "attentions"), "verify": False}
    manifest = zoo.to_onnx(vit_digits, tmp_path / "mine.onnx", size=8, **options)
    names = [output.name for output in manifest.only_variant.outputs]
    assert {"attentions_2", "attentions_4", "logits"} <= {*names}
    assert "last_hidden_state" not in names


@pytest.mark.full
@pytest.mark.parametrize("opset", [23, 18])
def test_a_new_head_on_fewer_blocks(fine_tuned, tmp_path, opset):
    file, layers = tmp_path / "mine.onnx", (1, 3)
    manifest = zoo.to_onnx(fine_tuned, file, opset=opset, size=(8, 12), layers=layers)
    assert manifest == read_manifest(tmp_path / "mine.manifest.json")
    assert manifest.only_variant.passed and manifest.weights.kind == "own"
    assert manifest.licence.name == zoo.info("vit_digits").licence.name
    assert manifest.only_variant.fused.get("Attention", 0) == (3 if opset == 23 else 0)
    assert manifest.layers == layers
    pixels = zoo.preprocess(fine_tuned, photographs(2), size=(8, 12))
    expected = jax_outputs(fine_tuned, pixels, layers)
    assert expected["logits"].shape == (2, 7)
    assert_outputs(file, pixels, expected)
    assert zoo.to_onnx(fine_tuned, file, layers="last2", verify=False).layers == (2, 3)


@pytest.mark.full
def test_a_module_around_a_network(fine_tuned, tmp_path):
    custom_model = ModelAround(fine_tuned, eqx.nn.MLP(64, 5, 16, 1, key=jax.random.key(2)), 0.5)
    zoo.to_onnx(custom_model, tmp_path / "mine.onnx", size="dynamic")
    pixels = zoo.preprocess(fine_tuned, photographs(3), size=(12, 20))
    assert_outputs(tmp_path / "mine.onnx", pixels, jax.vmap(custom_model)(pixels))


@pytest.mark.full
def test_parameters_of_bfloat16_keep_their_values(vit_digits, tmp_path):
    model = zoo.from_pretrained("vit_digits", dtype=jnp.bfloat16)
    zoo.to_onnx(model, tmp_path / "mine.onnx")
    pixels = zoo.preprocess(model, photographs(1))
    float32 = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), model)
    assert_outputs(tmp_path / "mine.onnx", pixels, jax_outputs(float32, pixels))


def test_wrong_models_and_options(vit_digits, tmp_path):
    """Errors name arguments of Python, not options of the command line."""
    mlp = eqx.nn.MLP(64, 5, 16, 1, key=jax.random.key(2))
    custom_model = ModelAround(vit_digits, mlp, 0.5)
    for model, message, options in (
        (vit_digits, "fp32, fp16, bf16, int8, q4, q4f16", {"precision": "float16"}),
        (vit_digits, "float32, uint8", {"input": "png"}),
        (vit_digits, r"give 224, \(height, width\) or 'dynamic'", {"size": "224"}),
        (vit_digits, "target phone is not known", {"target": "phone"}),
        (vit_digits, "give batch 1, or another number", {"target": "portable", "size": 8}),
        (vit_digits, r"end it in \.onnx", {"path": tmp_path / "mine"}),
        (mlp, "holds 0 of them", {}),
        (eqx.nn.Sequential([vit_digits, vit_digits]), "holds 2 of them", {}),
        (zoo.create("vit_digits", abstract=True), "shapes in place of par", {}),
        (custom_model, "Leave `layers` out", {"layers": [1]}),
        (custom_model, "Leave `outputs` out", {"outputs": ["scores"]}),
    ):
        with pytest.raises(BadRequest, match=message) as error:
            zoo.to_onnx(model, **{"path": tmp_path / "mine.onnx", **options})
        assert "--" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_nan_fails_the_verification(fine_tuned, tmp_path):
    """NaN in the outputs of both JAX and the file shows nothing."""
    broken = eqx.tree_at(lambda m: m.head.bias, fine_tuned, jnp.full(7, jnp.nan))
    with pytest.warns(UserWarning, match=r"head\.bias"), pytest.raises(NotVerified):
        zoo.to_onnx(broken, tmp_path / "mine.onnx", opset=23)
    assert not list(tmp_path.iterdir())
