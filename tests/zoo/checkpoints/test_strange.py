"""Checkpoints that are nearly a network's: the refusal names the cause, and a way out."""

import random
from pathlib import Path

import numpy as np
import pytest

import zoo as package
from tests.seeded import as_file, nano, state_of
from weights.containers import open_checkpoint
from weights.errors import NotACheckpoint, WeightsError
from weights.files import Checkpoint
from zoo.checkpoints.identify import identify_checkpoint, rank_networks
from zoo.checkpoints.load import naming_all_leaves
from zoo.checkpoints.mismatch import describe_mismatch, describe_settings_path
from zoo.common.errors import BadRequest

DEFAULT = [("dinov2_vits14", "huggingface"), ("vit_tiny_patch16_224", "timm")]
FULL = [
    pytest.param(name, naming.name, marks=pytest.mark.full)
    for name in ("dinov2_vits14_reg", "dinov3_vits16", "dinov3_convnext_tiny", "clip_vitb32")
    for naming in package.info(name).namings
]


def of(name, naming):
    """The tensors of a small network, by their names."""
    entry = package.info(name)
    config = nano(entry.config_for(naming))
    namings = (each.naming for each in naming_all_leaves(entry.published))
    own = next(
        each for each in namings if each.name == naming
    )  # its usual one: others are of networks with another pooling
    return state_of(config, own, 1)


def held(state):
    return Checkpoint(Path("mine.pth"), "", (), as_file(state))


@pytest.mark.parametrize(
    ("name", "naming"),
    [DEFAULT[0], *(pytest.param(*row, marks=pytest.mark.full) for row in DEFAULT[1:]), *FULL],
)
def test_a_missing_tensor_is_named(name, naming, pytestconfig):
    """Whatever tensor it is; what can be read without it is another network."""
    state = of(name, naming)
    assert rank_networks(held(state), None)
    rng, named = random.Random(f"{name} {naming}"), 0
    count = len(state) if pytestconfig.getoption("-m") == "full" else 3
    for key in rng.sample(sorted(state), count):
        less = held({other: value for other, value in state.items() if other != key})
        if not rank_networks(less, None):
            assert key in describe_mismatch(less, None)
            named += 1
    assert named


@pytest.mark.parametrize(
    ("name", "naming", "key", "expected"),
    [
        # DINOv2 with registers and DINOv3 differ in their positions alone.
        ("dinov2_vits14_reg", "equimo", "global_pos_embed.weight", "global_pos_embed.weight"),
        # The tensors of a tower lie under two prefixes, one within the other.
        ("clip_vitb32", "huggingface", "visual_projection.weight", None),
    ],
)
def test_a_missing_tensor_leaves_two_readings(name, naming, key, expected):
    state = of(name, naming)
    del state[key]
    read = rank_networks(held(state), None)
    if expected is None:
        assert {candidate.view.prefix for candidate in read} == {""}
    else:
        assert not read and expected in describe_mismatch(held(state), None)


LAYER = "encoder.layer.0.mlp.fc1"


def otherwise(state, form):
    """The same with one weight kept in another form."""
    weight = state[f"{LAYER}.weight"]
    length, direction = np.linalg.norm(weight, axis=1, keepdims=True), weight
    parts = {
        "pruned": {"weight_orig": weight, "weight_mask": np.ones_like(weight)},
        "weight norm": {"weight_g": length, "weight_v": direction},
        "spectral norm": {"weight_orig": weight, "weight_u": weight[:, 0], "weight_v": weight[0]},
        "parametrization": {
            "parametrizations.weight.original0": length,
            "parametrizations.weight.original1": direction,
        },
        "loralib": {"weight": weight, "lora_A": weight[:4], "lora_B": weight[:, :4]},
        "peft": {"base_layer.weight": weight, "lora_A.default.weight": weight[:4]},
    }[form]
    rest = {key: value for key, value in state.items() if key != f"{LAYER}.weight"}
    return rest | {f"{LAYER}.{name}": np.ascontiguousarray(each) for name, each in parts.items()}


ADVICE = {
    "pruned": "prune.remove",
    "weight norm": "remove_weight_norm",
    "spectral norm": "remove_spectral_norm",
    "parametrization": "remove_parametrizations",
    "loralib": "merge_and_unload",
    "peft": "merge_and_unload",
}


@pytest.mark.parametrize("form", ADVICE)
def test_weights_in_another_form(form):
    said = describe_mismatch(held(otherwise(of(*DEFAULT[0]), form)), None)
    assert ADVICE[form] in said and LAYER in said


@pytest.mark.parametrize(("name", "naming"), DEFAULT)
def test_pictures_of_one_channel(name, naming):
    state = of(name, naming)
    (key,) = (key for key, value in state.items() if value.ndim == 4)
    said = describe_mismatch(held(state | {key: state[key][:, :1]}), None)
    assert "pictures of 1 channel," in said and "converter.to_onnx" in said


def test_no_class_token_is_named_and_no_size_of_pictures():
    """`image_size` does not help there."""
    state = of("dinov2_vits14", "huggingface")
    table = state["embeddings.position_embeddings"]
    del state["embeddings.cls_token"]
    said = describe_mismatch(held(state | {"embeddings.position_embeddings": table[:, 1:]}), None)
    assert "embeddings.cls_token" in said and "image_size" not in said


def test_an_rf_detr_whose_sizes_contradict_each_other():
    """Its backbone alone would fit, and the rest looks like a head of somebody's own."""
    from dataclasses import replace

    entry = package.info("rf_detr_nano")
    small = nano(entry.config)
    config = replace(small, layers=entry.config.layers, backbone=replace(small.backbone, depth=12))
    state = state_of(config, entry.namings[0], 1)
    (key,) = (key for key in state if key.endswith("refpoint_embed.weight"))
    with pytest.raises(WeightsError, match=r"rf_detr.*refpoint_embed\.weight \(is \[5, 4\]"):
        identify_checkpoint(held(state | {key: state[key][:5]}))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("mine.pth", "a config.json beside mine.pth, in a folder without another checkpoint"),
        ("model.safetensors", "a config.json beside model.safetensors, and name the file again"),
    ],
)
def test_the_place_of_settings_is_that_of_the_file(path, words):
    assert words in describe_settings_path(Path(path))


def test_the_file_that_was_given_is_named(tmp_path):
    """Where a setting is missing, the advice is about this file, and following it helps."""
    from safetensors.numpy import save_file

    save_file(of("dinov2_vits14", "huggingface"), tmp_path / "mine.safetensors")
    checkpoint = open_checkpoint(tmp_path / "mine.safetensors")
    with pytest.raises(BadRequest, match=r"a config.json beside mine.safetensors") as error:
        identify_checkpoint(checkpoint)
    assert "model.safetensors" not in str(error.value)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    assert identify_checkpoint(checkpoint)[0].config.heads == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64, "git lfs pull"),
        (b"<!DOCTYPE html>\n<html>sign in</html>", "a web page"),
        (b"<html>the mirror is being repaired</html>", "a web page"),
    ],
)
def test_what_was_downloaded_in_place_of_a_file(content, words, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(NotACheckpoint, match=words):
        open_checkpoint(tmp_path / "model.safetensors")
