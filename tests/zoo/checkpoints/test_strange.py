"""Checkpoints that differ a little from a network's: the error names the cause and a solution."""

import random
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest

import zoo as package
from tests.seeded import as_file, nano, state_of
from tests.synthetic import save_pth
from weights.containers import open_checkpoint
from weights.errors import NotACheckpoint, WeightsError
from weights.files import Checkpoint
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.identify import (
    identify_checkpoint,
    rank_networks,
    summarize_checkpoint,
)
from zoo.checkpoints.load import naming_all_leaves
from zoo.checkpoints.mismatch import describe_mismatch, describe_settings_path
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadRequest

DEFAULT = [("dinov2_vits14", "huggingface"), ("vit_tiny_patch16_224", "timm")]
"""Models and namings of the default tier."""
FULL = [
    pytest.param(name, naming.name, marks=pytest.mark.full)
    for name in ("dinov2_vits14_reg", "dinov3_vits16", "dinov3_convnext_tiny", "clip_vitb32")
    for naming in package.info(name).namings
]
"""Models and namings of the full tier."""


def small_state(name, naming):
    """Return the tensors of a small network, by their names in a naming."""
    entry = package.info(name)
    config = nano(entry.config_for(naming))
    namings = (published.naming for published in naming_all_leaves(entry.published))
    # The first naming is the usual one. Others are of networks with another pooling.
    first = next(candidate for candidate in namings if candidate.name == naming)
    return state_of(config, first, 1)


def checkpoint_with(state):
    """Return a checkpoint in memory with these tensors."""
    return Checkpoint(Path("mine.pth"), "", (), as_file(state))


@pytest.mark.parametrize(
    ("name", "naming"),
    [DEFAULT[0], *(pytest.param(*row, marks=pytest.mark.full) for row in DEFAULT[1:]), *FULL],
)
def test_a_missing_tensor_is_named(name, naming, pytestconfig):
    """The error names the missing tensor, unless another network can be read without it."""
    state = small_state(name, naming)
    assert rank_networks(checkpoint_with(state), None)
    random_order, named_count = random.Random(f"{name} {naming}"), 0
    count = len(state) if pytestconfig.getoption("-m") == "full" else 3
    for key in random_order.sample(sorted(state), count):
        incomplete = checkpoint_with(
            {other: value for other, value in state.items() if other != key}
        )
        if not rank_networks(incomplete, None):
            assert key in describe_mismatch(incomplete, None)
            named_count += 1
    assert named_count


@pytest.mark.parametrize(
    ("name", "naming", "key", "expected"),
    [
        # DINOv2 with registers and DINOv3 differ only in their positions.
        ("dinov2_vits14_reg", "equimo", "global_pos_embed.weight", "global_pos_embed.weight"),
        # The tensors of a tower have two prefixes, one of which begins with the other.
        ("clip_vitb32", "huggingface", "visual_projection.weight", None),
    ],
)
def test_a_missing_tensor_leaves_two_readings(name, naming, key, expected):
    state = small_state(name, naming)
    del state[key]
    networks = rank_networks(checkpoint_with(state), None)
    if expected is None:
        assert {candidate.view.prefix for candidate in networks} == {""}
    else:
        assert not networks and expected in describe_mismatch(checkpoint_with(state), None)


LAYER = "encoder.layer.0.mlp.fc1"


def with_weight_in_form(state, form):
    """Return the tensors with one weight in another form."""
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
    other_tensors = {key: value for key, value in state.items() if key != f"{LAYER}.weight"}
    return other_tensors | {
        f"{LAYER}.{name}": np.ascontiguousarray(part) for name, part in parts.items()
    }


ADVICE = {
    "pruned": "prune.remove",
    "weight norm": "remove_weight_norm",
    "spectral norm": "remove_spectral_norm",
    "parametrization": "remove_parametrizations",
    "loralib": "merge_and_unload",
    "peft": "merge_and_unload",
}
"""What the error advises for each form."""


@pytest.mark.parametrize("form", ADVICE)
def test_weights_in_another_form(form):
    message = describe_mismatch(
        checkpoint_with(with_weight_in_form(small_state(*DEFAULT[0]), form)), None
    )
    assert ADVICE[form] in message and LAYER in message


@pytest.mark.parametrize(("name", "naming"), DEFAULT)
def test_pictures_of_one_channel(name, naming):
    state = small_state(name, naming)
    (key,) = (key for key, value in state.items() if value.ndim == 4)
    message = describe_mismatch(checkpoint_with(state | {key: state[key][:, :1]}), None)
    assert "pictures of 1 channel," in message and "converter.to_onnx" in message


def test_a_missing_class_token_is_named():
    """The error does not advise `image_size`, which does not help here."""
    state = small_state("dinov2_vits14", "huggingface")
    table = state["embeddings.position_embeddings"]
    del state["embeddings.cls_token"]
    message = describe_mismatch(
        checkpoint_with(state | {"embeddings.position_embeddings": table[:, 1:]}), None
    )
    assert "embeddings.cls_token" in message and "image_size" not in message


def test_an_rf_detr_whose_sizes_contradict_each_other():
    """It is not read as a backbone with a custom head, although the backbone alone would fit."""
    from dataclasses import replace

    entry = package.info("rf_detr_nano")
    small = nano(entry.config)
    config = replace(small, layers=entry.config.layers, backbone=replace(small.backbone, depth=12))
    state = state_of(config, entry.namings[0], 1)
    (key,) = (key for key in state if key.endswith("refpoint_embed.weight"))
    with pytest.raises(WeightsError, match=r"rf_detr.*refpoint_embed\.weight \(is \[5, 4\]"):
        identify_checkpoint(checkpoint_with(state | {key: state[key][:5]}))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("mine.pth", "a config.json beside mine.pth, in a folder without another checkpoint"),
        ("model.safetensors", "a config.json beside model.safetensors, and name the file again"),
    ],
)
def test_advice_names_the_folder_of_the_file(path, words):
    assert words in describe_settings_path(Path(path))


def test_the_file_that_was_given_is_named(tmp_path):
    """Advice about a missing setting names this file, and following it works."""
    from safetensors.numpy import save_file

    save_file(small_state("dinov2_vits14", "huggingface"), tmp_path / "mine.safetensors")
    checkpoint = open_checkpoint(tmp_path / "mine.safetensors")
    with pytest.raises(BadRequest, match=r"a config.json beside mine.safetensors") as error:
        identify_checkpoint(checkpoint)
    assert "model.safetensors" not in str(error.value)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    assert identify_checkpoint(checkpoint)[0].config.heads == 4


@pytest.mark.parametrize(
    ("name", "naming", "periods"),
    [
        ("dinov3_vits16", "meta", "the file's own"),
        ("dinov3_vits16", "huggingface", "none, so computed in float32"),
        ("dinov2_vits14", "huggingface", "none"),
        ("dinov2_vits14", "timm", "none"),  # no mask token either, which is not a period
    ],
)
def test_the_origin_of_rotary_periods_is_stated(name, naming, periods, tmp_path):
    save_pth(tmp_path / "w.pth", small_state(name, naming))
    assert summarize_checkpoint(GivenCheckpoint(tmp_path / "w.pth")).periods == periods


@pytest.mark.parametrize(
    ("size", "sides"),
    [([32, 48], (32, 48)), ([0, 48], ()), ([32, 0], ()), ([32], ()), ([True, 48], ()), (32, ())],
)
def test_sides_of_pictures_of_training(size, sides):
    settings = Settings.model_validate({"model_args": {"img_size": size}})
    assert settings.trained_on == sides


def test_an_equinox_file_of_one_array(tmp_path):
    eqx.tree_serialise_leaves(tmp_path / "one.eqx", np.zeros(3))
    with pytest.raises(WeightsError, match="not those of a model in the zoo"):
        package.from_pretrained(tmp_path / "one.eqx")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64, "git lfs pull"),
        (b"<!DOCTYPE html>\n<html>sign in</html>", "a web page"),
        (b"<html>the mirror is being repaired</html>", "a web page"),
    ],
)
def test_a_pointer_or_page_in_place_of_a_file(content, words, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(NotACheckpoint, match=words):
        open_checkpoint(tmp_path / "model.safetensors")
