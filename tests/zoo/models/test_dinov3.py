"""The DINOv3 models against the original in PyTorch, transformers and Equimo."""

import equinox as eqx
import jax
import numpy as np
import pytest

import zoo
from tests.synthetic import digest, make_image
from weights import bind, leaf_shapes
from zoo.models.build import abstract, build, count_parameters
from zoo.models.config import ViTConfig
from zoo.models.rope import AxialRoPE

ATOL = 3e-5
"""The reference's own float32 noise is 7e-6; the smallest known mistake costs 5e-5."""

SIZES = ("224x224", "256x384", "512x512", "230x250")
CASES = [("vits16", size) for size in SIZES] + [("tiny7b", size) for size in SIZES[:3]]


@eqx.filter_jit
def forward(model, image):
    return model(image)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("fixture", "size"), CASES)
def test_agrees_with_the_original(fixture, size, request):
    golden = request.getfixturevalue(fixture)
    height, width = map(int, size.split("x"))
    want = {
        key.removeprefix(f"{size}/"): golden.expected[key]
        for key in golden.expected
        if key.startswith(f"{size}/")
    }
    image = make_image(int(want["image_seed"]), height, width)
    assert digest({"image": image[None]}) == str(want["image_sha256"])

    tokens, pooled, *_ = forward(golden.model, image)
    patches = np.asarray(tokens)[5:]

    assert len(patches) == want["num_patches"]
    np.testing.assert_array_equal(pooled, tokens[0])
    np.testing.assert_allclose(pooled, want["x_norm_clstoken"][0], rtol=0, atol=ATOL)
    np.testing.assert_allclose(tokens[1:5], want["x_storage_tokens"][0], rtol=0, atol=ATOL)
    chosen = patches[want["patch_indices"]]
    np.testing.assert_allclose(chosen, want["x_norm_patchtokens_16"][0], rtol=0, atol=ATOL)
    np.testing.assert_allclose(patches.mean(0), want["patch_mean"][0], rtol=0, atol=ATOL)


@pytest.mark.parametrize(("fixture", "size"), CASES)
def test_rotary_tables(fixture, size, request):
    golden = request.getfixturevalue(fixture)
    height, width = (int(side) // 16 for side in size.split("x"))
    rotation = golden.model.local_pos_embed(height, width, prefix_tokens=5)
    sin, cos = rotation.sin, rotation.cos
    chosen = 5 + golden.expected[f"{size}/patch_indices"]
    np.testing.assert_allclose(sin[chosen], golden.expected[f"{size}/rope_sin_16"], atol=2e-6)
    np.testing.assert_allclose(cos[chosen], golden.expected[f"{size}/rope_cos_16"], atol=2e-6)
    np.testing.assert_array_equal(sin[:5], 0)
    np.testing.assert_array_equal(cos[:5], 1)


def test_agrees_with_transformers(vits16):
    torch = pytest.importorskip("torch")
    theirs = transformers_model(vits16)
    image = make_image(7, 96, 160)
    with torch.no_grad():
        want = theirs(torch.from_numpy(image[None]))
    tokens, pooled, *_ = forward(vits16.model, image)
    np.testing.assert_allclose(tokens, want.last_hidden_state[0].numpy(), rtol=0, atol=ATOL)
    np.testing.assert_allclose(pooled, want.pooler_output[0].numpy(), rtol=0, atol=ATOL)


def transformers_model(golden):
    """transformers' model with the weights of `golden`, the file's own periods included."""
    import torch
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    config = golden.config
    model = DINOv3ViTModel(
        DINOv3ViTConfig(
            hidden_size=config.dim,
            num_hidden_layers=config.depth,
            num_attention_heads=config.heads,
            intermediate_size=config.hidden,
            num_register_tokens=config.registers,
            key_bias=True,
        )
    ).eval()
    state = {key: torch.from_numpy(value) for key, value in golden.state.items()}
    model.rope_embeddings.inv_freq = 1 / state.pop("rope_embed.periods")
    state["mask_token"] = state["mask_token"][None]
    for i in range(config.depth):
        weight, bias = (state.pop(f"blocks.{i}.attn.qkv.{leaf}") for leaf in ("weight", "bias"))
        bias = bias * state.pop(f"blocks.{i}.attn.qkv.bias_mask")
        for name, w, b in zip("qkv", weight.chunk(3), bias.chunk(3), strict=True):
            state[f"model.layer.{i}.attention.{name}_proj.weight"] = w
            state[f"model.layer.{i}.attention.{name}_proj.bias"] = b
    model.load_state_dict({transformers_key(key): value for key, value in state.items()})
    return model


def transformers_key(key):
    """A Meta key as transformers spells it."""
    spellings = {
        "blocks.": "model.layer.",
        "attn.proj": "attention.o_proj",
        "ls1.gamma": "layer_scale1.lambda1",
        "ls2.gamma": "layer_scale2.lambda1",
        "mlp.fc1": "mlp.up_proj",
        "mlp.fc2": "mlp.down_proj",
        "patch_embed.proj": "embeddings.patch_embeddings",
        "storage_tokens": "embeddings.register_tokens",
        "cls_token": "embeddings.cls_token",
        "mask_token": "embeddings.mask_token",
    }
    for meta, theirs in spellings.items():
        key = key.replace(meta, theirs)
    return key


def test_agrees_with_equimo(vits16):
    vit = pytest.importorskip("equimo.models.vit")
    ours = vits16.model
    theirs = equimo_model(vit, ours)
    image = make_image(8, 64, 96)
    # Equimo's dtype promotions are its own business.
    with jax.numpy_dtype_promotion("standard"):
        want = theirs.forward_features(image, key=jax.random.key(0), inference=True)
    tokens, pooled, *_ = forward(ours, image)
    np.testing.assert_allclose(pooled, want["x_norm_cls_token"], rtol=0, atol=ATOL)
    np.testing.assert_allclose(tokens[1:5], want["x_norm_reg_tokens"], rtol=0, atol=ATOL)
    np.testing.assert_allclose(tokens[5:], want["x_norm_patchtokens"], rtol=0, atol=ATOL)


def equimo_model(vit, ours):
    """Equimo's model with the leaves of ours: the trees differ in two names only."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(ours)
    values = {jax.tree_util.keystr(p, simple=True, separator="."): leaf for p, leaf in leaves}

    def renamed(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        name = name.replace("blocks.0.blocks.", "blocks.")
        return values.get(name.replace("patch_rope.freqs", "periods"), leaf)

    spec = eqx.filter_eval_shape(
        lambda key: vit.dinov3_vits16_pretrain_lvd1689m(pretrained=False, key=key),
        jax.random.key(0),
    )
    model = jax.tree_util.tree_map_with_path(renamed, spec)
    left = eqx.filter(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    assert not jax.tree.leaves(left)
    return model


@pytest.mark.parametrize("name", zoo.list_models("dinov3*"))
def test_parameter_counts_of_the_published_files(name):
    assert count_parameters(zoo.create(name, abstract=True)) == zoo.info(name).parameters


def test_initialisation_has_the_abstract_shapes():
    config = ViTConfig(dim=32, depth=2, heads=2, hidden=64, ffn="swiglu", untied_norms=True)
    shapes = abstract(config)
    model = build(config, key=jax.random.key(0))
    assert jax.tree.structure(model) == jax.tree.structure(shapes)
    assert leaf_shapes(model) == leaf_shapes(shapes)
    assert np.isfinite(forward(model, make_image(0, 32, 48)).last_hidden_state).all()


@pytest.mark.full
def test_batches_by_vmap(tiny7b):
    images = np.stack([make_image(seed, 48, 32) for seed in (1, 2)])
    tokens, pooled, *_ = jax.vmap(tiny7b.model)(images)
    assert tokens.shape == (2, 5 + 3 * 2, 256)
    for image, row in zip(images, pooled, strict=True):
        np.testing.assert_allclose(row, forward(tiny7b.model, image).pooler_output, atol=1e-5)


def test_half_precision_stays_half_precision(tiny7b):
    model = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), tiny7b.model)
    with jax.numpy_dtype_promotion("strict"):
        out = forward(model, make_image(1, 32, 32).astype("bfloat16"))
    assert out.last_hidden_state.dtype == "bfloat16"


def test_head_width_must_allow_two_axes_and_two_halves():
    with pytest.raises(ValueError, match="multiple of 4"):
        AxialRoPE(head_dim=30)


def test_bind_refuses_another_shape():
    model = abstract(ViTConfig(dim=8, depth=1, heads=1, hidden=8))
    with pytest.raises(ValueError, match=r"patch_embed\.proj\.weight has shape"):
        bind(model, {"patch_embed.proj.weight": np.zeros((8, 3, 4, 4), np.float32)})
