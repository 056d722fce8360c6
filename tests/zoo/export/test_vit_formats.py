"""The same weights of every family through every format, each written by whose it is."""

from __future__ import annotations

import json
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import zoo
from tests.conftest import GOLDEN
from tests.references.running import file_state, transformers_model
from tests.seeded import as_file, leaves_of, nano, state_of, values_of
from weights import load_weights, open_checkpoint
from weights.containers.records import record_names
from weights.errors import BadValues, MappingError, NotACheckpoint
from weights.load import fits
from weights.mapping import plan, source_shapes
from weights.namings import equimo, google, huggingface, meta, original, timm
from zoo.checkpoints.load import load_checkpoint, shapes, variants
from zoo.models.config import LearnedPositions

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

DINOV2, DINOV2_REG = (zoo.info(f"dinov2_vits14{tail}") for tail in ("", "_reg"))
GIANT, TIPS = zoo.info("dinov2_vitg14_reg"), zoo.info("tips_vits14_hr")
VIT, SIGLIP, VIT5 = (
    zoo.info(name) for name in ("vit_tiny_patch16_224", "siglip2_vitb16_224", "vit5_small")
)
EUPE = zoo.info("eupe_vitt16")


def read(path, naming, config):
    """The leaves of a file for a model."""
    return load_weights(open_checkpoint(path), naming, shapes(config))


def assert_leaves(got, want):
    assert set(got) == set(want)
    for path in want:
        np.testing.assert_array_equal(got[path], want[path], err_msg=path)


# Equimo's settings for the small networks, by the function of `equimo.models.vit` they come from.
EQUIMO = {
    "dinov2_vits14": DINOV2,
    "dinov2_vits14_reg": DINOV2_REG,
    "dinov2_vitg14_reg": GIANT,
    "tips_vits14_hr": TIPS,
    "eupe_vitt16": EUPE,
    "siglip2_vitb16_224": SIGLIP,
    "vit_tiny_patch16_224": VIT,
    "vit5_small": VIT5,
}


def small_equimo(name, entry):
    """Settings of Equimo that make the network `nano` of an entry."""
    from equimo.models.vit import _VIT_REGISTRY

    config = nano(entry.config_for("equimo"))
    base, own = _VIT_REGISTRY[name]
    heads = config.heads if isinstance(own["num_heads"], int) else [config.heads]
    gated = config.ffn == "swiglu_fused"
    ratio = config.hidden * (1.5 if gated else 1) / config.dim
    grid = config.positions.grid if config.positions else 4
    changes = {
        "dim": config.dim,
        "num_heads": heads,
        "depths": [config.depth],
        "mlp_ratio": ratio,
        "img_size": grid * config.patch_size,
        "num_classes": config.classes,
    }
    return config, base | own | changes


@pytest.mark.parametrize("name", EQUIMO)
def test_archives_that_equimo_writes(name, tmp_path):
    from equimo.io import save_model
    from equimo.models.vit import VisionTransformer

    config, settings = small_equimo(name, EQUIMO[name])
    with jax.numpy_dtype_promotion("standard"):
        model = VisionTransformer(**settings, key=jax.random.PRNGKey(3))
        save_model(tmp_path / "w.tar.lz4", model, {})
    loaded = read(tmp_path / "w.tar.lz4", equimo.VIT, config)
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(model, eqx.is_array))
    assert len(leaves) == len(loaded.arrays)
    for path, leaf in leaves:
        key = jax.tree_util.keystr(path, simple=True, separator=".")
        # Periods and frequencies have the same name there.
        ours = next(r.leaf(key) for r in equimo.VIT.rules if r.leaf(key) in loaded.arrays)
        np.testing.assert_array_equal(loaded.arrays[ours].ravel(), np.ravel(leaf), err_msg=key)


ORDERS = json.loads((GOLDEN / "equimo_2_orders.json").read_text())
"""Paths and shapes in Equimo 2.7.0's own trees."""


@pytest.mark.parametrize("name", ORDERS)
def test_equimo_2_has_an_order_that_is_known(name):
    rows = [row.split() for row in ORDERS[name]]
    shapes_alone = [tuple(map(int, shape)) for _, *shape in rows]
    assert record_names(shapes_alone) == [path for path, *_ in rows]


def test_equimos_own_archive_of_dinov2():
    """Written by Equimo 2.0.0 from the published recipe."""
    config = replace(DINOV2_REG.config, dim=32, depth=2, heads=2, hidden=128)
    config = replace(config, positions=LearnedPositions(grid=8, antialias=True))
    want = leaves_of(config, meta.DINOV2_VIT, state_of(config, meta.DINOV2_VIT, 31))
    assert_leaves(read(GOLDEN / "equimo_v2_dinov2_nano.tar.lz4", equimo.VIT, config).arrays, want)


def test_archives_that_fit_no_order_are_refused():
    with pytest.raises(NotACheckpoint, match="no known order"):
        record_names([(8, 3, 4, 4), (8, 1, 1), (3, 3)])


def small_huggingface(entry):
    """A small configuration and transformers' model of it."""
    import transformers

    from tests.references.dinov2 import settings_of

    config = nano(entry.config_for("huggingface"))
    if entry is SIGLIP:
        settings = transformers.SiglipVisionConfig(
            hidden_size=config.dim,
            num_hidden_layers=config.depth,
            num_attention_heads=config.heads,
            intermediate_size=config.hidden,
            patch_size=config.patch_size,
            image_size=config.positions.grid * config.patch_size,
        )
        return config, transformers.SiglipVisionModel, settings, huggingface.SIGLIP_VIT
    if entry is VIT:
        settings = transformers.ViTConfig(
            hidden_size=config.dim,
            num_hidden_layers=config.depth,
            num_attention_heads=config.heads,
            intermediate_size=config.hidden,
            patch_size=config.patch_size,
            image_size=config.positions.grid * config.patch_size,
            num_labels=config.classes,
        )
        return config, transformers.ViTForImageClassification, settings, huggingface.VIT
    name = "Dinov2WithRegisters" if config.registers else "Dinov2"
    registers = {"num_register_tokens": config.registers} if config.registers else {}
    settings = getattr(transformers, f"{name}Config")(**settings_of(config), **registers)
    return config, getattr(transformers, f"{name}Model"), settings, huggingface.DINOV2_VIT


@pytest.mark.parametrize("entry", [DINOV2, DINOV2_REG, GIANT, VIT, SIGLIP], ids=lambda e: e.name)
def test_folders_that_transformers_writes(entry, tmp_path):
    config, kind, settings, naming = small_huggingface(entry)
    values = values_of(config)
    transformers_model(kind, settings, naming, values).save_pretrained(tmp_path / "hf")
    loaded = read(tmp_path / "hf", naming, config)
    assert_leaves(loaded.arrays, values)
    assert loaded.filled == ()


def test_a_model_with_the_tower_for_texts(tmp_path):
    """The fixed sizes of SigLIP 2 are published as a `SiglipModel`."""
    from transformers import SiglipConfig, SiglipModel, SiglipTextConfig

    config, _, settings, naming = small_huggingface(SIGLIP)
    text = SiglipTextConfig(
        vocab_size=9,
        max_position_embeddings=4,
        hidden_size=config.dim,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        bos_token_id=0,
        eos_token_id=1,
    )
    both = SiglipModel(SiglipConfig(text_config=text.to_dict(), vision_config=settings.to_dict()))
    both.save_pretrained(tmp_path / "hf")
    loaded = read(tmp_path / "hf", naming, config)
    want = both.vision_model.state_dict()
    probe = loaded.arrays["attn_pool.latent"]
    np.testing.assert_array_equal(probe, want["head.probe"][0].numpy())
    parts = [loaded.arrays[f"attn_pool.{part}.weight"] for part in ("q", "kv")]
    np.testing.assert_array_equal(
        np.concatenate(parts), want["head.attention.in_proj_weight"].numpy()
    )


def test_a_pooler_that_a_classifier_does_not_use(tmp_path):
    config, _, _, naming = small_huggingface(VIT)
    state = file_state(naming, values_of(config))
    state |= {"pooler.dense.weight": np.ones((32, 32), np.float32)}
    prefixed = {k if k.startswith("classifier") else f"vit.{k}": v for k, v in state.items()}
    save_file(prefixed, tmp_path / "w.safetensors")
    assert_leaves(read(tmp_path / "w.safetensors", naming, config).arrays, values_of(config))


# timm is not installed here; its layout (1.0.31) by hand: key of ours in Meta's names, key there.
TIMM = (("register_tokens", "reg_token"), ("mlp.w12", "mlp.fc1"), ("mlp.w3", "mlp.fc2"))


@pytest.mark.parametrize("entry", [DINOV2, DINOV2_REG, GIANT], ids=lambda e: e.name)
def test_timms_files_of_dinov2(entry, tmp_path):
    """As timm converts Meta's: no mask token; with registers the class token has its position."""
    config = nano(entry.config)
    state = state_of(config, meta.DINOV2_VIT, 2)
    want = leaves_of(config, meta.DINOV2_VIT, state)
    theirs = {key: value for key, value in state.items() if key != "mask_token"}
    if config.registers:
        theirs["cls_token"] = state["cls_token"] + state["pos_embed"][:, :1]
        theirs["pos_embed"] = state["pos_embed"][:, 1:]
    for old, new in TIMM:
        theirs = {key.replace(old, new): value for key, value in theirs.items()}
    save_file({k: np.ascontiguousarray(v) for k, v in theirs.items()}, tmp_path / "w.safetensors")
    published = nano(entry.config_for("timm"))
    loaded = read(tmp_path / "w.safetensors", timm.VIT, published)
    assert loaded.filled == ("mask_token",)
    for path in set(want) - {"mask_token", "cls_token", "global_pos_embed.weight"}:
        np.testing.assert_array_equal(loaded.arrays[path], want[path], err_msg=path)
    first = loaded.arrays["cls_token"]
    rows = loaded.arrays["global_pos_embed.weight"]
    if config.registers:
        np.testing.assert_array_equal(
            first, want["cls_token"] + want["global_pos_embed.weight"][:1]
        )
        np.testing.assert_array_equal(rows, want["global_pos_embed.weight"][1:])
    else:
        np.testing.assert_array_equal(rows, want["global_pos_embed.weight"])


# Keys of timm's state dicts outside the blocks and in the first one, written down from timm 1.0.31.
BLOCK_OF_TIMM = {
    f"blocks.0.{layer}.{leaf}"
    for layer in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
    for leaf in ("weight", "bias")
}
REST_OF_TIMM = {
    f"{layer}.{p}" for layer in ("patch_embed.proj", "norm") for p in ("weight", "bias")
}
POOL_OF_TIMM = {"attn_pool.latent"} | {
    f"attn_pool.{layer}.{leaf}"
    for layer in ("q", "kv", "proj", "norm", "mlp.fc1", "mlp.fc2")
    for leaf in ("weight", "bias")
}


@pytest.mark.parametrize(
    ("entry", "others"),
    [
        (VIT, {"cls_token", "pos_embed", "head.weight", "head.bias"}),
        (SIGLIP, {"pos_embed"} | POOL_OF_TIMM),
    ],
    ids=["vit", "siglip2"],
)
def test_timms_keys(entry, others, tmp_path):
    config = nano(entry.config_for("timm"))
    state = file_state(timm.VIT, values_of(config))
    first = {key for key in state if not key.startswith("blocks.1.")}
    assert first == BLOCK_OF_TIMM | REST_OF_TIMM | others
    save_file(state, tmp_path / "w.safetensors")
    assert_leaves(read(tmp_path / "w.safetensors", timm.VIT, config).arrays, values_of(config))


@pytest.mark.parametrize("entry", [DINOV2, DINOV2_REG, GIANT], ids=lambda e: e.name)
def test_metas_files(entry, tmp_path):
    config = nano(entry.config)
    state = state_of(config, meta.DINOV2_VIT, 4)
    tensors = {key: torch.from_numpy(value) for key, value in state.items()}
    torch.save(tensors, tmp_path / "w.pth")
    loaded = read(tmp_path / "w.pth", meta.DINOV2_VIT, config)
    assert_leaves(loaded.arrays, leaves_of(config, meta.DINOV2_VIT, state))
    assert loaded.provenance.rope_periods is None


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_googles_files(save, tmp_path):
    config = nano(TIPS.config)
    state = state_of(config, google.TIPS_VIT, 4)
    save(tmp_path / "w.npz", **state)
    loaded = read(tmp_path / "w.npz", google.TIPS_VIT, config)
    assert_leaves(loaded.arrays, leaves_of(config, google.TIPS_VIT, state))


def vit5_file(state, blocks):
    """Every block has the buffers of the first."""
    copies = {
        key.replace("blocks.0.", f"blocks.{block}."): value
        for key, value in state.items()
        for block in range(blocks)
        if ".rope" in key
    }
    return {key: torch.from_numpy(np.array(value)) for key, value in (state | copies).items()}


def test_the_originals_files_of_vit5(tmp_path):
    config = nano(VIT5.config_for("original"))
    state = state_of(config, original.VIT5, 4)
    assert {"reg_token", "blocks.1.gamma_2", "blocks.0.attn.rope_reg.freqs"} <= set(state)
    assert state["pos_embed"].shape == (1, 16, 32)
    torch.save({"model": vit5_file(state, 2)}, tmp_path / "w.pth")
    loaded = read(tmp_path / "w.pth", original.VIT5, config)
    assert_leaves(loaded.arrays, leaves_of(config, original.VIT5, state))
    other = vit5_file(state, 2)
    other["blocks.1.attn.rope.freqs"] = other["blocks.1.attn.rope.freqs"] * 2
    torch.save(other, tmp_path / "other.pth")
    with pytest.raises(BadValues, match=r"blocks\.1\.attn\.rope\.freqs must repeat blocks\.0"):
        read(tmp_path / "other.pth", original.VIT5, config)


def stand_in(entry, naming, folder, change=dict):
    """A file of the right keys and shapes; zeros, which a sparse file holds in no space."""
    keys = file_shapes(entry, naming)
    save_file(
        {k: np.zeros(s, np.float32) for k, s in change(keys).items()}, folder / "w.safetensors"
    )
    return open_checkpoint(folder / "w.safetensors")


def file_shapes(entry, naming):
    return source_shapes(plan(naming.rules, shapes(entry.config_for(naming.name))))


def test_the_networks_are_those_of_whose_weights_they_are(tmp_path):
    checkpoint = stand_in(VIT, timm.VIT, tmp_path)
    assert variants(checkpoint) == ["vit_tiny_patch16_224"]
    config = load_checkpoint(checkpoint, VIT).config
    assert (config.gelu, config.norm_eps, config.pool) == ("erf", 1e-6, "token")


def test_a_file_without_a_classifier(tmp_path):
    def headless(keys):
        return {key: shape for key, shape in keys.items() if not key.startswith("head.")}

    checkpoint = stand_in(VIT, timm.VIT, tmp_path, headless)
    with pytest.raises(MappingError, match=r"has no classifier and vit_tiny_patch16_224 is one"):
        load_checkpoint(checkpoint, VIT)


def test_a_classifier_of_other_classes(tmp_path):
    def classes(keys):
        return keys | {"head.weight": (21843, 192), "head.bias": (21843,)}

    checkpoint = stand_in(VIT, timm.VIT, tmp_path, classes)
    with pytest.raises(MappingError, match=r"head\.weight \(is \[21843, 192\], must be \[1000"):
        load_checkpoint(checkpoint, VIT)


def test_another_variant_is_named(tmp_path):
    checkpoint = stand_in(DINOV2, meta.DINOV2_VIT, tmp_path)
    assert variants(checkpoint) == ["dinov2_vits14"]
    with pytest.raises(MappingError, match=r"looks like dinov2_vits14, not like dinov2_vits14_reg"):
        load_checkpoint(checkpoint, DINOV2_REG)
    with pytest.raises(MappingError, match=r"not like tips_vits14_hr.*tips_oss_s14_highres"):
        load_checkpoint(checkpoint, TIPS)


def test_eupe_and_dinov3_cannot_be_told_apart(tmp_path):
    entry = zoo.info("eupe_vits16")
    checkpoint = stand_in(entry, meta.DINOV3_VIT, tmp_path)
    assert variants(checkpoint) == ["dinov3_vits16", "eupe_vits16"]
    with pytest.raises(MappingError, match="looks like dinov3_vits16 or eupe_vits16"):
        load_checkpoint(checkpoint, zoo.info("eupe_vitb16"))


def first_file(entry):
    """A small file as the first naming of an entry has it."""
    naming = entry.namings[0]
    return file_state(naming, values_of(nano(entry.config_for(naming.name))))


def test_files_of_other_families_do_not_fit():
    """No naming of one takes another's file for its own, square tables and single rows included."""
    networks = [DINOV2, DINOV2_REG, GIANT, TIPS, VIT, SIGLIP, VIT5]
    for name, state in ((entry.name, first_file(entry)) for entry in networks):
        fitting = [
            entry.name
            for entry in networks
            for naming in entry.namings
            if fits(naming, as_file(state), shapes(nano(entry.config_for(naming.name))))
        ]
        assert fitting == [name]
