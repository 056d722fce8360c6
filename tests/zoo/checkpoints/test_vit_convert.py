"""`zoo weights convert` for the other families: what is written loads in the library it is for."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
import torch

import zoo
from tests.seeded import model_of, nano, native, values_of
from tests.synthetic import make_image
from weights import LazyArrays, LazyTensor, Provenance, Weights, load_weights, open_checkpoint
from weights.writers.items import items_for
from zoo.checkpoints.convert import leaves_to_write, lost, naming_to_write, write
from zoo.checkpoints.load import Loaded, shapes
from zoo.checkpoints.settings.huggingface import transformers_processor
from zoo.checkpoints.transformers import run_transformers
from zoo.errors import BadRequest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NAMES = (
    "dinov2_vits14",
    "dinov2_vits14_reg",
    "dinov2_vitg14_reg",
    "tips_vits14_hr",
    "eupe_vitt16",
    "siglip2_vitb16_224",
    "vit_tiny_patch16_224",
    "vit5_small",
)
TRANSFORMERS = ("dinov2_vits14", "dinov2_vits14_reg", "dinov2_vitg14_reg", "siglip2_vitb16_224")

forward = eqx.filter_jit(lambda model, image: model(image))


class Silent:
    def stage(self, text, total=None):
        pass

    def step(self, size):
        pass


def small(name, source=""):
    """An entry of the registry, two blocks deep, and weights for its network of a source."""
    entry = zoo.info(name)
    published = {naming: nano(config) for naming, config in entry.published.items()}
    entry = replace(entry, config=nano(entry.config), published=published)
    config = entry.config_for(source)
    file = {
        path: LazyTensor(values.shape, "float32", lambda values=values: values)
        for path, values in values_of(config).items()
    }
    return entry, Loaded(config, Weights(LazyArrays(file), Provenance("random", seed=1)))


def written(entry, loaded, form, path):
    naming = naming_to_write(entry, form)
    items = items_for(naming, loaded.weights, leaves_to_write(entry, naming, loaded.config))
    write(naming.name, path, items, replace(entry, config=loaded.config), Silent())
    return naming


def assert_read_back(naming, path, config):
    got = load_weights(open_checkpoint(path), naming, shapes(config)).arrays
    for leaf, values in values_of(config).items():
        np.testing.assert_array_equal(got[leaf], values, err_msg=leaf)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_equimo_loads_its_archive(name, tmp_path):
    """As `equimo.io.load_model` does: the model from the metadata, the leaves from the file."""
    from equimo.io import load_model

    entry, loaded = small(name, "equimo")
    path = tmp_path / "w.tar.lz4"
    naming = written(entry, loaded, "equimo", path)
    assert_read_back(naming, path, loaded.config)
    if name == "vit5_small":
        return  # 1.1.0 rotates other pairs than the network does
    with jax.numpy_dtype_promotion("standard"):
        model = load_model(cls="vit", path=path)
        image = make_image(2, *native(loaded.config))
        key = jax.random.PRNGKey(0)
        tokens = jax.vmap(model.norm)(model.features(image, key=key, inference=True))
    want = forward(model_of(loaded.config), image)
    np.testing.assert_allclose(tokens, want.last_hidden_state, rtol=0, atol=3e-5)
    if loaded.config.classes:
        with jax.numpy_dtype_promotion("standard"):
            logits = model(image, key=key, inference=True)
        np.testing.assert_allclose(logits, want.logits, rtol=0, atol=3e-5)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_loads_its_folder(name):
    """The folder is what `zoo golden make --reference transformers` runs."""
    entry, loaded = small(name)
    pixels = make_image(3, *native(loaded.config))[None]
    got = run_transformers(entry, loaded, pixels)
    want = forward(model_of(loaded.config), pixels[0])
    for output, values in got.items():
        np.testing.assert_allclose(values[0], getattr(want, output), rtol=0, atol=3e-5)


def test_a_classifier_for_transformers(tmp_path):
    from transformers import ViTForImageClassification

    entry, loaded = small("vit_tiny_patch16_224", "huggingface")
    naming = written(entry, loaded, "huggingface", tmp_path / "hf")
    assert_read_back(naming, tmp_path / "hf", loaded.config)
    model = ViTForImageClassification.from_pretrained(tmp_path / "hf").eval()
    image = make_image(3, *native(loaded.config))
    with torch.no_grad():
        logits = model(torch.from_numpy(image[None])).logits[0]
    want = forward(model_of(loaded.config), image)
    np.testing.assert_allclose(logits, want.logits, rtol=0, atol=3e-5)
    pooled = run_transformers(entry, loaded, image[None])["pooler_output"]
    np.testing.assert_allclose(pooled[0], want.pooler_output, rtol=0, atol=3e-5)


@pytest.mark.parametrize("name", ["dinov2_vits14_reg", "eupe_vitt16", "vit5_small"])
def test_pytorch_loads_its_file(name, tmp_path):
    source = {"vit5_small": "original"}.get(name, "")
    entry, loaded = small(name, source)
    naming = written(entry, loaded, "pytorch", tmp_path / "w.pth")
    state = torch.load(tmp_path / "w.pth", weights_only=True)
    if name == "vit5_small":
        # Every block has the buffers of the first.
        assert {f"blocks.{i}.attn.rope_reg.freqs" for i in (0, 1)} <= set(state)
    file = load_weights(open_checkpoint(tmp_path / "w.pth"), naming, shapes(loaded.config))
    assert file.filled == ()


@pytest.mark.parametrize(
    ("name", "source", "form", "message"),
    [
        ("tips_vits14_hr", "", "pytorch", "no program reads .* from a .pth file"),
        ("tips_vits14_hr", "", "huggingface", "no program reads .* from a folder for transformers"),
        ("vit_tiny_patch16_224", "timm", "pytorch", "no program reads .* from a .pth file"),
        ("siglip2_vitb16_224", "equimo", "huggingface", r"has no attn_pool\.latent"),
        ("dinov2_vits14_reg", "timm", "pytorch", r"has no global_pos_embed\.weight of shape \[17"),
        ("vit5_small", "original", "equimo", r"has no blocks\.0\.prenorm\.bias"),
        ("vit_tiny_patch16_224", "equimo", "huggingface", "transformers has no class"),
    ],
)
def test_what_cannot_be_written(name, source, form, message, tmp_path):
    entry, loaded = small(name, source)
    with pytest.raises(BadRequest, match=message):
        written(entry, loaded, form, tmp_path / "w")


def test_a_head_that_equimo_has_no_place_for(tmp_path):
    """Equimo's SigLIP 2 is the network without its head: the rest is written."""
    entry, loaded = small("siglip2_vitb16_224")
    naming = written(entry, loaded, "equimo", tmp_path / "w.tar.lz4")
    headless = entry.config_for("equimo")
    got = load_weights(open_checkpoint(tmp_path / "w.tar.lz4"), naming, shapes(headless)).arrays
    assert set(values_of(loaded.config)) - set(got) == {
        path for path in values_of(loaded.config) if path.startswith("attn_pool.")
    }
    # The command says so.
    assert "attn_pool.latent" in lost(loaded, shapes(headless))
    assert all(path.startswith("attn_pool.") for path in lost(loaded, shapes(headless)))
    assert lost(loaded, shapes(loaded.config)) == ()


def test_positions_that_transformers_interpolates_in_another_way():
    for name in ("dinov2_vits14", "vit_tiny_patch16_224"):
        entry, loaded = small(name, "huggingface")
        side = 5 * loaded.config.patch_size
        with pytest.raises(BadRequest, match="interpolates these positions by another rule"):
            run_transformers(entry, loaded, np.zeros((1, 3, side, side), np.float32))


@pytest.mark.parametrize("name", ["dinov2_vits14", "siglip2_vitb16_224", "dinov3_vits16"])
def test_processors_are_those_of_transformers(name, tmp_path):
    """The settings give the pixels that the zoo computes."""
    import json

    from transformers import BitImageProcessorPil, SiglipImageProcessorPil

    from zoo.images.photograph import photograph
    from zoo.images.pixel_values import pixel_values

    how = zoo.info(name).preprocessing
    settings = transformers_processor(how)
    kinds = {
        "BitImageProcessor": BitImageProcessorPil,
        "SiglipImageProcessor": SiglipImageProcessorPil,
    }
    kind = kinds.get(settings["image_processor_type"])
    if kind is None:
        assert settings["image_processor_type"] == "DINOv3ViTImageProcessorFast"
        return
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    want = kind.from_pretrained(tmp_path)(photograph(), return_tensors="np")["pixel_values"]
    got = pixel_values([photograph()], how, how.size)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
