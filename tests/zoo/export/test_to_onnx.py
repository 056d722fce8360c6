"""`zoo.to_onnx`: models that somebody fine-tuned, cut or extended, in ONNX Runtime and in JAX."""

import hashlib
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jaxtyping import Array, Float

import zoo
from zoo.errors import BadRequest, NotVerified
from zoo.images.photograph import photographs
from zoo.manifest.read import read_manifest

ATOL = 1e-5
"""Three times what float32 rounding makes of these outputs of unit size (3e-6)."""


@pytest.fixture(scope="module")
def digits():
    return zoo.from_pretrained("vit_digits")


@pytest.fixture(scope="module")
def fine_tuned(digits):
    """Fewer blocks and another head, with other numbers."""
    head = eqx.nn.Linear(64, 7, key=jax.random.key(1))
    model = eqx.tree_at(lambda m: (m.blocks, m.head), digits, (digits.blocks[:3], head))
    return jax.tree.map(lambda leaf: leaf * 1.01, model)


class Mine(eqx.Module):
    """A backbone inside of something else, with leaves that are no arrays."""

    backbone: eqx.Module
    mlp: eqx.nn.MLP
    scale: float

    def __call__(self, image: Float[Array, "3 H W"]) -> dict[str, Array]:
        features = self.backbone(image)
        return {
            "scores": self.scale * self.mlp(features.pooler_output),
            "patches": features.last_hidden_state[5:],
        }


def run(path, pixels):
    live = onnxruntime.InferenceSession(path)
    names = [each.name for each in live.get_outputs()]
    fed = {live.get_inputs()[0].name: np.asarray(pixels)}
    return dict(zip(names, live.run(names, fed), strict=True))


@pytest.mark.full
@pytest.mark.parametrize("opset", [23, 18])
def test_a_new_head_on_fewer_blocks(fine_tuned, tmp_path, opset):
    path = tmp_path / "mine.onnx"
    manifest = zoo.to_onnx(fine_tuned, path, opset=opset, size=(8, 12))
    assert manifest == read_manifest(tmp_path / "mine.manifest.json")
    assert manifest.only.passed and manifest.weights.kind == "own"
    assert manifest.licence.name == zoo.info("vit_digits").licence.name
    assert manifest.only.fused.get("Attention", 0) == (3 if opset == 23 else 0)
    pixels = zoo.preprocess(fine_tuned, photographs(2), size=(8, 12))
    got, wanted = run(path, pixels), jax.vmap(fine_tuned)(pixels)
    assert list(got) == ["last_hidden_state", "pooler_output", "logits"]
    assert got["logits"].shape == (2, 7)
    for name, value in wanted._asdict().items():
        if name in got:
            np.testing.assert_allclose(got[name], value, rtol=0, atol=ATOL, err_msg=name)


@pytest.mark.full
def test_a_module_around_a_network(fine_tuned, tmp_path):
    mine = Mine(fine_tuned, eqx.nn.MLP(64, 5, 16, 1, key=jax.random.key(2)), 0.5)
    path = tmp_path / "mine.onnx"
    manifest = zoo.to_onnx(mine, path, size="dynamic")
    pixels = zoo.preprocess(fine_tuned, photographs(3), size=(12, 20))
    got, wanted = run(path, pixels), jax.vmap(mine)(pixels)
    assert set(got) == {"scores", "patches"}
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=ATOL, err_msg=name)
    names = {value["name"] for value in json.loads(manifest.model_dump_json())["files"]}
    assert names == {"mine.onnx"}
    # Sizes were open, so five were tried.
    assert len({(c.height, c.width) for c in manifest.only.verification.comparisons}) == 5


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_precisions(fine_tuned, tmp_path, precision):
    manifest = zoo.to_onnx(fine_tuned, tmp_path / "mine.onnx", precision=precision)
    assert manifest.only.precision == precision and manifest.only.passed


@pytest.mark.full
def test_images_of_eight_bits(fine_tuned, tmp_path):
    path = tmp_path / "mine.onnx"
    zoo.to_onnx(fine_tuned, path, input="uint8", batch=2, opset=18)
    images = [image.resize((50, 40)) for image in photographs(2)]
    got = run(path, np.stack([np.asarray(image) for image in images]))
    wanted = jax.vmap(fine_tuned)(zoo.preprocess(fine_tuned, images)).logits
    np.testing.assert_allclose(got["logits"], wanted, rtol=0, atol=ATOL)


@pytest.mark.full
def test_hidden_states(fine_tuned, tmp_path):
    path = tmp_path / "mine.onnx"
    manifest = zoo.to_onnx(fine_tuned, path, layers=[1, 3])
    assert manifest.layers == (1, 3)
    pixels = zoo.preprocess(fine_tuned, photographs(1))
    wanted = fine_tuned(pixels[0], (1, 3)).hidden_states
    got = run(path, pixels)
    for number, value in zip((1, 3), wanted, strict=True):
        np.testing.assert_allclose(got[f"hidden_state_{number}"][0], value, rtol=0, atol=ATOL)
    assert zoo.to_onnx(fine_tuned, path, layers="last2").layers == (2, 3)


@pytest.mark.full
def test_parameters_of_bfloat16_keep_their_values(tmp_path):
    model = zoo.from_pretrained("vit_digits", dtype=jnp.bfloat16)
    path = tmp_path / "mine.onnx"
    zoo.to_onnx(model, path)
    float32 = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), model)
    pixels = zoo.preprocess(model, photographs(1))
    wanted = jax.vmap(float32)(pixels).logits
    np.testing.assert_allclose(run(path, pixels)["logits"], wanted, rtol=0, atol=ATOL)


def test_the_manifest_has_the_digest_of_equinoxs_file(fine_tuned, tmp_path):
    eqx.tree_serialise_leaves(tmp_path / "mine.eqx", fine_tuned)
    wanted = hashlib.sha256((tmp_path / "mine.eqx").read_bytes()).hexdigest()
    manifest = zoo.to_onnx(fine_tuned, tmp_path / "mine.onnx", verify=False)
    assert manifest.weights.sha256 == wanted and manifest.only.verification is None


def test_a_model_of_the_zoo_gives_the_bytes_of_the_command(tmp_path):
    from typer.testing import CliRunner

    from zoo.cli.app import app

    done = CliRunner().invoke(app, ["export", "vit_digits", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    zoo.to_onnx(zoo.from_pretrained("vit_digits"), tmp_path / "mine.onnx")
    written = (tmp_path / "vit_digits-opset23.onnx").read_bytes()
    assert (tmp_path / "mine.onnx").read_bytes() == written


def test_earlier_files_are_replaced_and_others_are_not(fine_tuned, tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    for _ in range(2):
        zoo.to_onnx(fine_tuned, tmp_path / "mine.onnx", verify=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mine.json",
        "mine.manifest.json",
        "mine.onnx",
    ]
    assert (tmp_path / "mine.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"precision": "float16"}, "fp32, fp16, bf16, int8, q4, q4f16"),
        ({"input": "png"}, "float32, uint8"),
        ({"opset": 16}, "17 to 26"),
        ({"size": 9}, "multiples of its patch size, 2"),
        ({"size": 0}, "positive multiples"),
        ({"batch": 0}, "positive number"),
        ({"layers": [4]}, "layers 1 to 3"),
        ({"layers": "last9"}, "layers 1 to 3"),
        ({"batch": "2"}, "batch 2 is no batch size"),
        ({"size": "224"}, r"give 224, \(height, width\) or 'dynamic'"),
        ({"size": (8,)}, "height and width"),
        ({"target": "phone"}, "target phone is not known"),
        ({"target": "portable", "size": 8}, "give batch 1, or another number"),
    ],
)
def test_wrong_arguments(fine_tuned, tmp_path, changes, told):
    """Told as Python's arguments, not as the command line's."""
    with pytest.raises(BadRequest, match=told) as error:
        zoo.to_onnx(fine_tuned, tmp_path / "mine.onnx", **changes)
    assert "--" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_models_that_are_not_of_the_zoo(digits, tmp_path):
    path = tmp_path / "mine.onnx"
    with pytest.raises(BadRequest, match="holds 0 of them"):
        zoo.to_onnx(eqx.nn.MLP(2, 2, 2, 1, key=jax.random.key(0)), path)
    with pytest.raises(BadRequest, match="holds 2 of them"):
        zoo.to_onnx(eqx.nn.Sequential([digits, digits]), path)
    with pytest.raises(BadRequest, match="shapes in place of parameters"):
        zoo.to_onnx(zoo.create("vit_digits", abstract=True), path)
    with pytest.raises(BadRequest, match=r"end it in \.onnx"):
        zoo.to_onnx(digits, tmp_path / "mine")
    with pytest.raises(BadRequest, match="Leave `layers` out"):
        mine = Mine(digits, eqx.nn.MLP(64, 5, 16, 1, key=jax.random.key(2)), 0.5)
        zoo.to_onnx(mine, path, layers=[1])
    assert not list(tmp_path.iterdir())


class Chaos(eqx.Module):
    """A function that turns what is rounded away into its result."""

    backbone: eqx.Module

    def __call__(self, image: Float[Array, "3 H W"]) -> Array:
        return jnp.sin(1e6 * self.backbone(image).pooler_output)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_what_is_wrong_is_not_written(fine_tuned, tmp_path, precision):
    """An earlier file is replaced by one that is right alone."""
    path = tmp_path / "mine.onnx"
    path.write_text("an earlier one")
    with pytest.raises(NotVerified, match="was not written"):
        zoo.to_onnx(Chaos(fine_tuned), path, precision=precision)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.onnx"]
    assert path.read_text() == "an earlier one"


def test_what_is_not_exact_is_kept_where_that_is_asked_for(fine_tuned, tmp_path):
    path = tmp_path / "mine.onnx"
    manifest = zoo.to_onnx(Chaos(fine_tuned), path, precision="int8", keep_inexact=True)
    assert not manifest.only.passed
    assert read_manifest(path.with_suffix(".manifest.json")) == manifest
    with pytest.raises(NotVerified, match="was not written"):
        zoo.to_onnx(Chaos(fine_tuned), tmp_path / "whole.onnx", keep_inexact=True)


def test_not_a_number_is_told(fine_tuned, tmp_path):
    broken = eqx.tree_at(lambda m: m.head.bias, fine_tuned, jnp.full(7, jnp.nan))
    with pytest.warns(UserWarning, match=r"head\.bias"):
        zoo.to_onnx(broken, tmp_path / "mine.onnx", verify=False)
