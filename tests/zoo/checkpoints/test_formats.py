"""Every family in every format: the zoo reads other libraries' files, and they load its files."""

import io
import json
import tarfile
import zipfile
from dataclasses import replace

import equinox as eqx
import jax
import lz4.frame
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    DINOv3ViTModel,
    SiglipConfig,
    SiglipModel,
)

import zoo
from tests.conftest import GOLDEN
from tests.formats import NAMES, NANO, in_equimo, in_transformers, leaves, small, timm_state, write
from tests.loading import naming_of
from tests.references.convnext import equimo_outputs
from tests.references.running import file_state, weights_of
from tests.seeded import as_file, leaves_of, nano, native, state_of, values_of
from tests.synthetic import make_image, save_pth
from weights import bind, load_weights, open_checkpoint
from weights.containers.leaf_order import record_names
from weights.errors import BadValues, MappingError, NotACheckpoint
from weights.load import find_nearest_naming, matches_model
from weights.mapping import plan_leaves, source_shapes
from weights.namings import equimo_names, huggingface_names, meta_names, original_names
from weights.progress import Quiet
from weights.writers.items import items_for
from zoo.architectures.builder import abstract
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.checkpoints import convert
from zoo.checkpoints.golden import run_transformers
from zoo.checkpoints.identify import identify_checkpoint
from zoo.checkpoints.load import (
    LoadedWeights,
    fitting_models,
    fitting_views,
    load_checkpoint,
    model_shapes,
    naming_all_leaves,
)
from zoo.checkpoints.source import read_weights
from zoo.common.errors import BadRequest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

INCOMPLETE_NAMINGS = {"deit_tiny_distilled_patch16_224": (1,), "clip_vitb32": (1, 2)}
"""Models, and the indices of their namings that lack a leaf for one of the heads."""

FILES = [
    (name, naming)
    for name in NAMES
    for index, naming in enumerate(zoo.info(name).namings)
    if index not in INCOMPLETE_NAMINGS.get(name, ())
]
USUAL = [*{(name, naming.name): (name, naming) for name, naming in reversed(FILES)}.values()][::-1]
"""The first naming of each library. Further ones are of networks with another pooling."""

PERIODS = "local_pos_embed.periods"

forward = eqx.filter_jit(lambda model, image: model(image))


def read(path, naming, config):
    return load_weights(open_checkpoint(path), naming, model_shapes(config))


def assert_leaves(actual, expected, ignored=()):
    """Compare the bits of every leaf except those in `ignored`."""
    assert set(actual) == set(expected)
    for path in set(expected) - set(ignored):
        np.testing.assert_array_equal(actual[path], expected[path], err_msg=path)


def other_configs(config):
    """Return configurations with another depth, and with another patch size or width."""
    if isinstance(config, OnBackbone):
        with_other_backbones = [
            replace(config, backbone=other) for other in other_configs(config.backbone)
        ]
        field_of_type = {DepthConfig: "fused", MaskConfig: "queries", SegmenterConfig: "classes"}[
            type(config)
        ]
        return [
            *with_other_backbones,
            replace(config, **{field_of_type: 2 + getattr(config, field_of_type)}),
        ]
    changes = {"depths": (1, 1, 1, 1)}, {"dims": (8, 16, 24, 40)}
    if isinstance(config, SwinConfig):
        changes = {"depths": (1, 2, 1, 1)}, {"heads": (2, 4, 4, 4)}
    elif not isinstance(config, ConvNeXtConfig):
        changes = {"depth": config.depth + 1}, {"patch_size": config.patch_size + 1}
    return [replace(config, **change) for change in changes]


@pytest.mark.parametrize("name", INCOMPLETE_NAMINGS)
def test_a_naming_that_lacks_a_leaf(name):
    expected = [naming for other, naming in FILES if other == name]
    complete = naming_all_leaves(small(name).published)
    assert [published.naming for published in complete] == expected


@pytest.mark.each("naming.name")
@pytest.mark.parametrize(("name", "naming"), USUAL, ids=lambda x: getattr(x, "name", x))
def test_files_of_other_libraries_are_read(name, naming, tmp_path):
    """Files of any writer have the same bits, and the zoo recognises their naming."""
    entry, naming_name = small(name), naming.name
    config, expected = entry.config_for(naming_name), dict(leaves(name, naming_name))
    path = write(tmp_path, name, naming)
    namings = [item for other_name, item in FILES if other_name == name]
    named_by, view = find_nearest_naming(namings, open_checkpoint(path))
    tensors = view.tensors
    # Without registers, timm's keys of DINOv2 are the same as Meta's.
    assert named_by.name == naming_name or name == "dinov2_vits14"
    assert matches_model(naming, tensors, model_shapes(config))
    for other_config in other_configs(config):
        assert not matches_model(naming, tensors, model_shapes(other_config))
    loaded = read(path, naming, config)
    assert loaded.provenance.kind == naming_name
    rotary = {path for path in expected if path.endswith(PERIODS)}
    computed = (
        rotary and naming_name in ("huggingface", "timm") and entry.family in ("dinov3", "eomt")
    )
    periods = "float32" if computed else "file"
    assert loaded.provenance.rope_periods == (periods if rotary else None)
    unused = {leaf for leaf in expected if leaf.startswith(("mask_token", "local_cls_norm"))}
    assert set(loaded.filled_leaves) <= (
        unused if naming_name in ("huggingface", "timm") else set()
    )
    assert_leaves(
        loaded.arrays, expected, ignored={*loaded.filled_leaves, *(rotary if computed else [])}
    )


@pytest.mark.each("form")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in NAMES
        for form in dict.fromkeys(item.convention.form for item in zoo.info(name).namings)
        if form
    ],
)
def test_libraries_read_written_files(name, form, tmp_path):
    """The zoo reads its own file back, and the library that it is for computes the same outputs."""
    entry = small(name)
    published = convert.naming_to_write(entry, form)
    naming, config = published.naming, published.config
    values = leaves(name, naming.name)
    write_file(entry, LoadedWeights(config, weights_of(values)), form, tmp_path / "w")
    loaded = read(tmp_path / "w", naming, config)
    assert_leaves(
        loaded.arrays, values, ignored={*loaded.filled_leaves, PERIODS, f"backbone.{PERIODS}"}
    )
    image = make_image(3, *native(config))
    expected = forward(bind(abstract(config), values), image)._asdict()
    outputs = RUN_IN[form](name, entry, config, tmp_path / "w", image)
    if form == "huggingface" and expected.keys() == {"last_hidden_state", "pooler_output"}:
        assert outputs.keys() == expected.keys()
    for output, value in outputs.items():
        np.testing.assert_allclose(value, expected[output], rtol=0, atol=3e-5, err_msg=output)


def write_file(entry, loaded, form, path):
    """Write a checkpoint in a format. Return its naming."""
    published = convert.naming_to_write(entry, form)
    leaf_shapes = convert.leaves_to_write(entry, published, loaded.config)
    items = items_for(published.naming, loaded.weights.arrays, leaf_shapes)
    convert.write_checkpoint_file(form, path, items, replace(entry, config=loaded.config), Quiet())
    return published.naming


def by_torch(name, entry, config, path, image):
    """Compare the tensors and dtypes with those of the original's file."""
    (path.parent / "theirs").mkdir()
    original = write(path.parent / "theirs", name, convert.naming_to_write(entry, "pytorch").naming)
    expected = kinds(torch.load(original, weights_only=True))
    assert kinds(torch.load(path, weights_only=True)) == expected
    mapped = torch.load(path, weights_only=True, mmap=True)
    assert kinds(mapped) == expected
    # torch aligns every storage to 64 bytes.
    assert not any(value.data_ptr() % 64 for value in mapped.values())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    return {}


def kinds(tensors):
    """Return the shape and dtype of each tensor."""
    return {key: (value.shape, value.dtype) for key, value in tensors.items()}


def by_equimo(name, entry, config, path, image):
    """Run the model that the archive's metadata describe, with the leaves of the file."""
    from equimo.io import load_model, load_weights
    from equimo.models.convnext import ConvNeXt

    if name == "vit5_small":
        return {}  # 1.1.0 rotates other pairs than the network does
    key = jax.random.PRNGKey(0)
    archive = path.rename(path.with_name("w.tar.lz4"))
    if "convnext" in name:
        with tarfile.open(fileobj=io.BytesIO(lz4.frame.open(archive).read())) as members:
            metadata = json.load(members.extractfile("metadata.json"))
        model = eqx.filter_eval_shape(ConvNeXt, **metadata["model_config"], key=key)
        model = load_weights(model, path=archive)
        return {"pooler_output": equimo_outputs(model, image)[1]}
    with jax.numpy_dtype_promotion("standard"):
        model = load_model("vit", path=archive)
        tokens = jax.vmap(model.norm)(model.features(image, key=key, inference=True))
        logits = model(image, key=key, inference=True) if config.classes else None
    return {"last_hidden_state": tokens} | ({"logits": logits} if config.classes else {})


def by_transformers(name, entry, config, path, image):
    """Run the written folder as `zoo golden --reference transformers` does."""
    from transformers import AutoModelForImageClassification

    loaded = LoadedWeights(config, weights_of(leaves(name, "huggingface")))
    feeds = {"pixel_values": image[None]}
    batched = run_transformers(entry, loaded, feeds, image.shape[1:])
    outputs = {key: value[0] for key, value in batched.items()}
    if config.task.name == "image-classification":
        model = AutoModelForImageClassification.from_pretrained(path).eval()
        with torch.no_grad():
            outputs["logits"] = model(torch.from_numpy(image[None])).logits[0]
    return outputs


RUN_IN = {"pytorch": by_torch, "equimo": by_equimo, "huggingface": by_transformers}
"""Functions that run a written file in the library that it is for, by format."""


@pytest.mark.parametrize("key_bias", [False, True])
def test_biases_of_the_keys(key_bias, tmp_path):
    """Published files of DINOv3 have no biases of keys.

    The written settings state if there are any.
    """
    entry, state = small("dinov3_vits16"), state_of(NANO, meta_names.DINOV3_VIT, 3)
    if key_bias:
        state |= {key: np.ones_like(v) for key, v in state.items() if key.endswith("bias_mask")}
    entry = entry.with_config(NANO)
    loaded = LoadedWeights(NANO, weights_of(leaves_of(NANO, meta_names.DINOV3_VIT, state)))
    write_file(entry, loaded, "huggingface", tmp_path / "w")
    model, report = DINOv3ViTModel.from_pretrained(tmp_path / "w", output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert model.config.key_bias == key_bias


def test_a_tower_in_a_checkpoint_of_both(tmp_path):
    """The fixed sizes of SigLIP 2 are published as a `SiglipModel`, which has both towers."""
    name, naming_name = "siglip2_vitb16_224", "huggingface"
    config, values = small(name).config_for(naming_name), leaves(name, naming_name)
    model = in_transformers(name, config, values)
    text_settings = {
        "hidden_size": model.config.hidden_size,
        "num_hidden_layers": 1,
        "vocab_size": 9,
    }
    text_settings |= {
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 4,
    }
    text_settings |= {"bos_token_id": 0, "eos_token_id": 1}
    both = SiglipModel(
        SiglipConfig(text_config=text_settings, vision_config=model.config.to_dict())
    )
    both.vision_model.load_state_dict(model.state_dict())
    both.save_pretrained(tmp_path / "hf")
    naming = naming_of(zoo.info(name), naming_name)
    assert_leaves(read(tmp_path / "hf", naming, config).arrays, values)


def test_a_classifier_with_a_pooler_is_refused(tmp_path):
    """The zoo refuses a classifier with a pooler.

    No classifier of transformers has a pooler. A custom one may take the class token or the
    pooler's output, and no tensor determines which.
    """
    config = nano(zoo.info("vit_tiny_patch16_224").config_for("huggingface"))
    state = file_state(huggingface_names.VIT, values_of(config))
    state |= {"pooler.dense.weight": np.ones((32, 32), np.float32)}
    prefixed = {k if k.startswith("classifier") else f"vit.{k}": v for k, v in state.items()}
    save_file(prefixed, tmp_path / "w.safetensors")
    with pytest.raises(MappingError, match=r"2 missing: classifier\.weight, classifier\.bias"):
        read(tmp_path / "w.safetensors", huggingface_names.VIT, config)


BLOCK = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
"""Layers of a block in timm's files."""
POOL = ("q", "kv", "proj", "norm", "mlp.fc1", "mlp.fc2")
"""Layers of attention pooling in timm's files."""


def test_timms_keys():
    """The keys outside of the blocks and in the first block are as in timm 1.0.31."""
    for name, head, token in (
        ("vit_tiny_patch16_224", {"head"}, "cls_token"),
        ("siglip2_vitb16_224", {f"attn_pool.{part}" for part in POOL}, "attn_pool.latent"),
    ):
        layers = {"patch_embed.proj", "norm", *head, *(f"blocks.0.{part}" for part in BLOCK)}
        keys = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
        actual = {key for key in timm_state(name) if not key.startswith("blocks.1.")}
        assert actual == keys | {token, "pos_embed"}


def test_keys_of_the_original_of_vit5():
    config = nano(zoo.info("vit5_small").config_for("original"))
    state = state_of(config, original_names.VIT5, 4)
    # Every block has the buffers of the first.
    rotary = {f"blocks.{i}.attn.rope_reg.freqs" for i in (0, 1)}
    assert {"reg_token", "blocks.1.gamma_2"} | rotary <= set(state)
    assert state["pos_embed"].shape == (1, 16, 32)


def test_a_tensor_that_does_not_repeat_another_is_refused(tmp_path):
    for name, key, repeated in (
        ("vit5_small", "blocks.1.attn.rope.freqs", "blocks.0.attn.rope.freqs"),
        ("dinov3_convnext_tiny", "norms.3.bias", "norm.bias"),
    ):
        naming = zoo.info(name).namings[0]
        config = small(name).config_for(naming.name)
        state = state_of(config, naming, 4)
        save_pth(tmp_path / "w.pth", state | {key: state[key] + 1})
        with pytest.raises(BadValues, match=f"{key} must repeat {repeated}"):
            read(tmp_path / "w.pth", naming, config)


def test_the_order_of_leaves_in_equimo_2():
    """The orders are compared with the paths and shapes of Equimo 2.7.0's own trees."""
    for order in json.loads((GOLDEN / "equimo_2_orders.json").read_text()).values():
        rows = [row.split() for row in order]
        shapes_alone = [tuple(map(int, shape)) for _, *shape in rows]
        assert record_names(shapes_alone) == [path for path, *_ in rows]
    with pytest.raises(NotACheckpoint, match="no known order"):
        record_names([(8, 3, 4, 4), (8, 1, 1), (3, 3)])


def test_equimos_own_archives():
    """Archives of published networks that Equimo 1.1.0 and 2.0.0 wrote are read.

    The bias mask is folded into their biases.
    """
    positions = LearnedPositions(grid=8, antialias=True)
    dinov2 = replace(nano(zoo.info("dinov2_vits14_reg").config), positions=positions)
    for name, config, naming, version in (
        ("equimo_v1_dinov3_nano", NANO, meta_names.DINOV3_VIT, "1.x"),
        ("equimo_v2_dinov2_nano", dinov2, meta_names.DINOV2_VIT, "2.x"),
    ):
        path = GOLDEN / f"{name}.tar.lz4"
        expected = leaves_of(config, naming, state_of(config, naming, 31))
        assert_leaves(read(path, equimo_names.VIT, config).arrays, expected)
        assert open_checkpoint(path).container.endswith(version)


def test_an_unpacked_archive_with_a_bias_that_must_be_zero(tmp_path):
    """Equimo 1.x gives the 7B model biases that the published file does not have."""
    from equimo.io import save_model

    name = "dinov3_vit7b16"
    config, values = small(name).config, leaves(name, "equimo")
    model = in_equimo(name, config, values)
    save_model(tmp_path / "folder", model, {}, compression=False)
    naming = naming_of(zoo.info(name), "equimo")
    assert_leaves(read(tmp_path / "folder", naming, config).arrays, values)
    bad = jax.tree.map(lambda leaf: leaf + 1 if isinstance(leaf, jax.Array) else leaf, model)
    save_model(tmp_path / "b.tar.lz4", bad, {})
    with pytest.raises(BadValues, match=r"no place for blocks\.0\.blocks\.0\.attn\.qkv\.bias"):
        read(tmp_path / "b.tar.lz4", naming, config)


def stand_in(name, folder, changes):
    """Write a file with the right keys and shapes, in which `changes` replaces some shapes.

    A shape of None removes the tensor. The values are zeros.
    """
    entry = zoo.info(name)
    naming = entry.namings[0]
    keys = source_shapes(plan_leaves(naming.rules, model_shapes(entry.config_for(naming.name))))
    tensors = {key: np.zeros(shape, np.float32) for key, shape in (keys | changes).items() if shape}
    save_file(tensors, folder / "w.safetensors")
    return open_checkpoint(folder / "w.safetensors")


VIT = "vit_tiny_patch16_224"
HEAD = {"head.weight": (21843, 192), "head.bias": (21843,)}


@pytest.mark.parametrize(
    ("source", "changes", "fitting", "target", "message"),
    [
        (VIT, {}, [VIT, "deit_tiny_patch16_224"], None, None),
        (VIT, dict.fromkeys(HEAD), [], VIT, f"has no classifier and {VIT} is one"),
        (VIT, HEAD, [], VIT, r"head\.weight \(is \[21843, 192\], must be \[1000"),
        (
            *("dinov2_vits14", {}, ["dinov2_vits14"], "tips_vits14_hr"),
            r"looks like dinov2_vits14, not like tips_vits14_hr.*tips_oss_s14_highres",
        ),
        (
            *("eupe_vits16", {}, ["dinov3_vits16", "eupe_vits16"], "eupe_vitb16"),
            "looks like dinov3_vits16 or eupe_vits16",
        ),
        (
            *("dinov3_convnext_tiny", {}, ["dinov3_convnext_tiny", "eupe_convnext_tiny"]),
            *("dinov3_convnext_small", "looks like dinov3_convnext_tiny"),
        ),
    ],
)
def test_files_are_attributed_to_models(source, changes, fitting, target, message, tmp_path):
    checkpoint = stand_in(source, tmp_path, changes)
    assert fitting_models(checkpoint) == fitting
    if target is None:
        config = load_checkpoint(checkpoint, zoo.info(source)).config
        assert (config.activation, config.norm_eps, config.pool) == ("gelu", 1e-6, "token")
        return
    with pytest.raises(MappingError, match=message):
        load_checkpoint(checkpoint, zoo.info(target))
    if "convnext" in source:
        assert not any(fitting_views(checkpoint, zoo.info("dinov3_vits16").readable_namings))


def test_files_of_other_families_do_not_fit():
    """No naming reads the file of another family, even if tables are square or have one row.

    Two namings of one entry may both fit, as timm's keys of DINOv2 without registers are Meta's.
    """
    # EUPE's network of one size is DINOv3's, and that of TIPS is TIPSv2's.
    entries = [small(name) for name in NAMES if name not in ("eupe_vitt16", "tips_vits14_hr")]
    for source in entries:
        naming = source.namings[0]
        state = as_file(state_of(source.config_for(naming.name), naming, 4))
        fitting = [
            entry.name
            for entry in entries
            if any(
                matches_model(other, state, model_shapes(entry.config_for(other.name)))
                for other in entry.namings
            )
        ]
        assert fitting == [source.name]


def test_formats_that_cannot_be_written_are_refused(tmp_path):
    for name, source, form, message in (
        ("tips_vits14_hr", "google", "pytorch", "no program reads .* from a .pth file"),
        (
            "tips_vits14_hr",
            "google",
            "huggingface",
            "no program reads .* from a folder for transformers",
        ),
        ("siglip2_vitb16_224", "equimo", "huggingface", r"has no attn_pool\.latent"),
        ("dinov2_vits14_reg", "timm", "pytorch", r"has no global_pos_embed\.weight of shape \[17"),
        ("vit5_small", "original", "equimo", r"has no blocks\.0\.prenorm\.bias"),
        (VIT, "equimo", "huggingface", "transformers has no class"),
    ):
        entry, config = small(name), small(name).config_for(source)
        with pytest.raises(BadRequest, match=message):
            write_file(
                entry, LoadedWeights(config, weights_of(values_of(config))), form, tmp_path / "w"
            )


def test_a_head_that_equimo_does_not_have_is_dropped(tmp_path):
    """Equimo's SigLIP 2 has no head.

    The other leaves are written, and the dropped ones are reported.
    """
    entry = small("siglip2_vitb16_224")
    loaded = LoadedWeights(entry.config, weights_of(values_of(entry.config)))
    naming = write_file(entry, loaded, "equimo", tmp_path / "w.tar.lz4")
    headless = entry.config_for("equimo")
    arrays = read(tmp_path / "w.tar.lz4", naming, headless).arrays
    head = {path for path in values_of(entry.config) if path.startswith("attn_pool.")}
    assert set(values_of(entry.config)) - set(arrays) == head
    dropped = convert.find_dropped_leaves(loaded, model_shapes(headless))
    assert "attn_pool.latent" in dropped and set(dropped) <= head
    assert convert.find_dropped_leaves(loaded, model_shapes(entry.config)) == ()


@pytest.mark.parametrize("name", ["dinov2_vits14", VIT])
def test_positions_that_transformers_interpolates_in_another_way(name):
    entry, config = small(name), small(name).config_for("huggingface")
    image = np.zeros((1, 3, 5 * config.patch_size, 5 * config.patch_size), np.float32)
    with pytest.raises(BadRequest, match="interpolates these positions by another rule"):
        loaded = LoadedWeights(config, weights_of(values_of(config)))
        run_transformers(entry, loaded, {"pixel_values": image}, image.shape[2:])


@pytest.mark.parametrize("channels", [32, 24])
def test_a_projection_without_a_bias_is_no_head(channels, tmp_path):
    """The projection is a layer of the network, whatever its width, and not a custom head."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 64, "image_size": 32, "patch_size": 8}
    config = CLIPVisionConfig(**sizes, projection_dim=channels)
    CLIPVisionModelWithProjection(config).save_pretrained(tmp_path / "own")
    entry, view = identify_checkpoint(read_weights(str(tmp_path / "own")))
    assert entry.config.projection == channels and not entry.config.classes and not view.head
