"""Custom checkpoints, with other classes and sizes than published ones, and without a model's name.

Others are networks of transformers that lack the projections or registers of published ones.
"""

import json
import re
from dataclasses import fields, is_dataclass, replace

import equinox as eqx
import jax
import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

import zoo as package
from tests.references.areas import AREAS
from tests.references.classifiers import CLASSES, OWN
from tests.seeded import REPRESENTATIVES, nano
from tests.tiers import default_rows
from weights import LazyTensor
from weights.files import Checkpoint
from weights.mapping import plan_leaves, source_shapes
from weights.tensors import Provenance
from zoo.architectures.builder import abstract
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.artifacts.read import entry_of_manifest
from zoo.artifacts.schema import Manifest
from zoo.checkpoints.identify import rank_networks
from zoo.checkpoints.load import model_shapes
from zoo.export.describe import make_shared_manifest
from zoo.export.request import Signature

NOISE = 1e-5
"""Limit of a difference of logits of about 1.

It is four times the largest measured difference between PyTorch and ONNX Runtime.
"""

AREA_NOISE = 5e-5
"""Limit of a difference of mask logits, which reach some tens."""


def assert_logits(file, checkpoint):
    """Compare the logits of an ONNX file with those of PyTorch, for two pictures."""
    session = onnxruntime.InferenceSession(file)
    pictures = np.random.default_rng(5).standard_normal((2, 3, *checkpoint.size), np.float32)
    (actual,) = session.run(["logits"], {"pixel_values": pictures})
    with torch.no_grad():
        expected = checkpoint.logits(torch.from_numpy(pictures)).numpy()
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(actual, expected, rtol=0, atol=NOISE)


def size_of(checkpoint):
    """Return the size of pictures as an option of the command."""
    return "{}x{}".format(*checkpoint.size)


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("kind", OWN)
def test_a_checkpoint_without_a_name(kind, opset, zoo, tmp_path):
    """The family is recognised from tensors, classes are named, and the file computes the same."""
    checkpoint = OWN[kind](tmp_path / "own")
    printed = zoo(
        *("export", "--size", size_of(checkpoint), "--opset", opset, "--out", "w.onnx"),
        *("--weights", checkpoint.path),
    )
    assert_logits(zoo.here / "w.onnx", checkpoint)
    manifest = json.loads((zoo.here / "w.manifest.json").read_text())
    has_names = checkpoint.path.is_dir() or (checkpoint.path.parent / "config.json").is_file()
    assert manifest["classes"] == (list(CLASSES) if has_names else ["0", "1", "2"])
    # A network with the sizes of a published model is printed with that model's name.
    printable_names = {manifest.get("family"), manifest["model"], "vit_tiny_patch16_224"}
    assert (
        any(f"is {name}: " in printed.err for name in printable_names)
        and "3 classes" in printed.err
    )
    zoo("verify", "w.onnx", "--weights", checkpoint.path)


@pytest.mark.each()
@pytest.mark.parametrize(
    ("kind", "opset"),
    [
        *(("masked eomt", 23), ("masked eomt", 18), ("eomt masked once", 23), ("patches", 18)),
        pytest.param("eomt", 23, marks=pytest.mark.full),
    ],
)
def test_areas_of_a_network_without_a_name(kind, opset, zoo, tmp_path):
    """Networks with unpublished sizes compute the same, also for pictures that are not square."""
    checkpoint = AREAS[kind](tmp_path / "own")
    printed = zoo(
        *("export", "--weights", checkpoint.path, "--size", size_of(checkpoint), "--opset", opset),
        *("--out", "w.onnx"),
    )
    pictures = np.random.default_rng(5).standard_normal((2, 3, *checkpoint.size), np.float32)
    expected = checkpoint.outputs(torch.from_numpy(pictures))
    session = onnxruntime.InferenceSession(zoo.here / "w.onnx")
    for name, actual in zip(
        expected, session.run([*expected], {"pixel_values": pictures}), strict=True
    ):
        assert np.ptp(expected[name]) > 0.5
        np.testing.assert_allclose(actual, expected[name], rtol=0, atol=AREA_NOISE)
    assert f"is {checkpoint.family}: " in printed.err and "3 classes" in printed.err
    manifest = json.loads((zoo.here / "w.manifest.json").read_text())
    assert manifest["classes"] == list(CLASSES)


@pytest.mark.parametrize("kind", ["eomt", "masked eomt"])
def test_transformers_reads_converted_masks(kind, zoo, tmp_path):
    """transformers computes the same from a converted checkpoint. The same blocks mask patches."""
    checkpoint = AREAS[kind](tmp_path / "own")
    zoo("weights", "convert", checkpoint.path, "hf")
    model = transformers.AutoModelForUniversalSegmentation.from_pretrained(zoo.here / "hf").eval()
    assert (model.config.image_size, [*model.config.id2label.values()]) == (64, [*CLASSES])
    model.grid_size = (2, 3)
    pictures = torch.randn((1, 3, 32, 48), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        outputs = model(pictures)
    for name, value in checkpoint.outputs(pictures).items():
        np.testing.assert_allclose(outputs[name], value, rtol=0, atol=AREA_NOISE)


def test_an_activation_that_no_published_network_has(zoo, tmp_path):
    """The activation is read from the settings."""
    checkpoint = OWN["vit"](tmp_path / "own", hidden_act="relu")
    zoo("export", "--weights", checkpoint.path, "--size", size_of(checkpoint), "--out", "w.onnx")
    assert_logits(zoo.here / "w.onnx", checkpoint)


@pytest.mark.full
def test_leaves_that_equinox_wrote(zoo, tmp_path):
    """The last leaves belong to a classifier of another width than the published one."""
    checkpoint = OWN["meta, one file"](tmp_path / "own")
    model = package.from_pretrained("dinov2_vits14_reg", checkpoint.path)
    eqx.tree_serialise_leaves("w.eqx", model)
    zoo("export", "--weights", "w.eqx", "--size", size_of(checkpoint), "--out", "w.onnx")
    assert_logits(zoo.here / "w.onnx", checkpoint)


def test_a_manifest_states_every_network():
    """A manifest of a network with custom sizes and classes determines the same network."""
    for entry in (package.info(name) for name in REPRESENTATIVES):
        config, names = nano(entry.config), CLASSES
        if isinstance(config, DepthConfig) or getattr(config, "projection", None):
            names = ()  # A head would take vectors of another width than these networks have.
        else:
            config = replace(config, classes=3)
        custom = replace(entry.as_unpublished, config=config, labels=names)
        manifest = make_shared_manifest(
            custom, Signature((64, 96), None), Provenance("random", seed=1)
        )
        entry_again = entry_of_manifest(Manifest.model_validate_json(manifest.model_dump_json()))
        assert (entry_again.config, entry_again.class_names, entry_again.name) == (
            custom.config,
            names,
            custom.name,
        )
        assert entry_again.licence == custom.licence


def test_a_known_tower_may_have_another_vocabulary(tmp_path):
    """A published size of the tower for pictures does not decide for a published vocabulary.

    SigLIP 1 has another vocabulary for its texts.
    """
    entry = package.info("siglip2_vitb16_224_dual")
    config = DualConfig(entry.config.vision, replace(entry.config.words, vocabulary=96))
    shapes = source_shapes(plan_leaves(entry.namings[0].rules, model_shapes(config)))
    tensors = {key: LazyTensor(shape, "float32", dict) for key, shape in shapes.items()}
    networks = rank_networks(Checkpoint(tmp_path, "safetensors", (), tensors), None)
    assert {network.config.words.vocabulary for network in networks} == {96}


def test_sizes_that_are_sound_make_a_network():
    """Every configuration that is sound can be built, for example from a manifest of a user.

    Configurations are mixed from fields of two known ones and random numbers.
    """
    rng = np.random.default_rng(3)
    known = [nano(package.info(name).config) for name in REPRESENTATIVES]
    count = 0
    for _ in range(80):
        config, other = (known[number] for number in rng.integers(len(known), size=2))
        if type(config) is not type(other):
            continue
        for name in map(str, rng.choice([field.name for field in fields(config)], 3)):
            number = int(rng.integers(-1, 12))
            value = getattr(other, name)
            config = replace(config, **{name: number if type(value) is int else value})
        if isinstance(config, ViTConfig) and rng.integers(2):
            config = replace(config, head_tokens=int(rng.integers(-1, 4)))
        if config.is_sound:
            count += 1
            # Sides of the input must be multiples of the stride.
            side = 2 * config.stride
            picture = jax.ShapeDtypeStruct((3, side, 3 * side), "float32")
            output = eqx.filter_eval_shape(lambda m, x: m(x), abstract(config), picture)
            width = {DepthConfig: 3 * side, SegmenterConfig: 6}.get(type(config), config.dim)
            if isinstance(config, MaskConfig):
                width = config.classes + 1
            if config.task.name == "object-detection":
                width = config.classes
            assert output[0].shape[-1] == width
    assert count > 15


def varied(config, number):
    """Yield paths of fields, also in parts, and configurations in which the field is `number`."""
    for field in fields(config):
        name, value = field.name, getattr(config, field.name)
        if type(value) is int:
            yield name, replace(config, **{name: number})
        elif isinstance(value, tuple) and value and all(type(item) is int for item in value):
            yield name, replace(config, **{name: (number, *value[1:])})
        elif is_dataclass(value):
            parts = varied(value, number)
            yield from ((f"{name}.{path}", replace(config, **{name: part})) for path, part in parts)


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_invalid_sizes_are_not_sound(name):
    config = package.info(name).config
    assert config.is_sound and nano(config).is_sound
    for number in (-1, 10**12):
        sound = {path for path, variant in varied(config, number) if variant.is_sound}
        assert sound <= {"rope.length"}  # This is a factor of angles and may have any value.


@pytest.mark.parametrize("kind", default_rows(["vit", "vit on no square"], "vit on no square"))
def test_settings_that_the_error_asks_for_are_enough(kind, zoo, tmp_path):
    """A `config.json` with only the settings that the refusal asks for is enough."""
    checkpoint = OWN[kind](tmp_path / "own")
    path, settings_to_write = checkpoint.path / "config.json", {"num_attention_heads": 4}
    if kind != "vit":
        path.write_text(json.dumps(settings_to_write))
        error = zoo("export", "--weights", checkpoint.path, code=2).error
        assert "28 positions are of no square grid" in error and '"image_size": [HEIGHT' in error
        settings_to_write["image_size"] = [32, 56]
    path.write_text(json.dumps(settings_to_write))
    model = package.from_pretrained("vit", checkpoint.path)
    picture = np.random.default_rng(5).standard_normal((3, *checkpoint.size), np.float32)
    expected = checkpoint.logits(torch.from_numpy(picture[None]))[0].detach()
    # The epsilon of norms is not in this config.json and differs, hence the larger tolerance.
    actual = model(jax.numpy.asarray(picture)).logits
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4)


def change_settings(folder, **changes):
    """Change settings of the config.json in a folder."""
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def masked(folder):
    """Change the probabilities of masks to those in the middle of a training."""
    tensors = load_file(folder / "model.safetensors")
    tensors["attn_mask_probs"] = np.full_like(tensors["attn_mask_probs"], 0.5)
    save_file(tensors, folder / "model.safetensors")


WRONG = {
    "nobody says how many heads": (
        *("vit", lambda folder: (folder / "config.json").unlink()),
        r"vit of 48 channels: no tensor tells how many heads .*\"num_attention_heads\": NUMBER",
    ),
    "nor how many the network below areas has": (
        *("eomt", lambda folder: (folder / "config.json").unlink()),
        r"eomt of \d+ channels: no tensor tells how many heads",
    ),
    "nor where timm computes the periods": (
        *("timm's dinov3", lambda folder: change_settings(folder, num_attention_heads=None)),
        "dinov3 of 32 channels: no tensor tells how many heads",
    ),
    "heads that cannot be": (
        *("vit", lambda folder: change_settings(folder, num_attention_heads=7)),
        "7 heads cannot share 48 channels",
    ),
    "heads that cannot be rotated": (
        *("timm's dinov3", lambda folder: change_settings(folder, num_attention_heads=16)),
        "16 heads cannot share 32 channels",
    ),
    "another network": (
        *("vit", lambda folder: change_settings(folder, hidden_act="silu")),
        "says that hidden_act is 'silu', and the zoo's network has gelu",
    ),
    "another activation of timm's": (
        *(
            "timm's dinov2",
            lambda folder: change_settings(folder, model_args={"act_layer": "silu"}),
        ),
        "act_layer is 'silu'",
    ),
    "another pool": (
        *("timm's dinov2", lambda folder: change_settings(folder, global_pool="catavgmax")),
        "global_pool is 'catavgmax'",
    ),
    "another crop": (
        *(
            "timm's dinov2",
            lambda folder: change_settings(folder, pretrained_cfg={"crop_mode": "border"}),
        ),
        "crop_mode` is 'border'",
    ),
    "pictures that are no squares": (
        "timm's dinov2",
        lambda folder: change_settings(folder, pretrained_cfg={"input_size": [3, 70, 98]}),
        "input_size is not square",
    ),
    "other positions": (
        *("swinv2", lambda folder: change_settings(folder, use_absolute_embeddings=True)),
        "use_absolute_embeddings is True",
    ),
    "windows of any size": (
        *("swinv2", lambda folder: (folder / "config.json").unlink()),
        r"no tensor tells how large its windows are\. Write {\"window_size\": NUMBER",
    ),
    "four channels": ("vit", lambda folder: OWN["vit"](folder, num_channels=4), "of 4 channels"),
    "a grid of other sides": (
        *("vit on no square", lambda folder: change_settings(folder, image_size=[40, 64])),
        "28 positions are of no square",
    ),
    "names of other classes": (
        *("dinov2", lambda folder: change_settings(folder, id2label={"0": "one", "1": "two"})),
        "names 2 classes, and its classifier has 3",
    ),
    "settings that are none": (
        *("convnext", lambda folder: (folder / "config.json").write_text("[]")),
        r"config\.json cannot be used",
    ),
    "pictures of no known kind": (
        "convnext",
        lambda folder: (folder / "preprocessor_config.json").write_text(
            '{"size": {"longest_edge": 9}, "resample": 3, "image_mean": [0, 0, 0], '
            '"image_std": [1, 1, 1]}'
        ),
        r"preprocessor_config\.json .*resize",
    ),
    "a classifier without its backbone": (
        *("meta, four layers", lambda folder: next(folder.glob("*_pretrain.pth")).unlink()),
        r"linear4_head\.pth is a head .* one dinov2_vits14_pretrain\.pth",
    ),
    "a backbone that its name contradicts": (
        "meta, four layers",
        lambda folder: next(folder.glob("*_pretrain.pth")).rename(
            folder / "dinov2_vits14_pretrain-abcdef01.pth"
        ),
        "its sha256 begins with abcdef01",
    ),
    "masks that hide patches at random": (
        *("eomt", lambda folder: masked(folder)),
        r"attn_mask_probs contains values other than 0 and 1: .* Continue training until the",
    ),
    "tensors of something else": (
        "vit",
        lambda folder: save_file({"weight": np.ones((3, 4))}, folder / "model.safetensors"),
        "holds no network of an architecture of the zoo",
    ),
}
"""Checkpoints that are refused: their kind, a function that spoils them, and the error."""


SLOW = ("a backbone that its name contradicts",)
"""Cases in the full tier."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.full] * (case in SLOW)) for case in WRONG]
)
def test_incomplete_checkpoints_are_refused(case, zoo, tmp_path):
    """The command prints the error and writes nothing."""
    kind, spoil, message = WRONG[case]
    checkpoint = (OWN | AREAS)[kind](tmp_path / "own")
    spoil(tmp_path / "own")
    assert re.search(message, zoo("export", "--weights", checkpoint.path, code=2).error)
    assert list(zoo.here.iterdir()) == []


forward = eqx.filter_jit(lambda model, value: model(value))

SIZES = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    "intermediate_size": 48,
}
PICTURES = {**SIZES, "image_size": 40, "patch_size": 8}
WORDS = {
    **{**SIZES, "vocab_size": 99, "max_position_embeddings": 16},
    **{"eos_token_id": 98, "bos_token_id": 97, "pad_token_id": 98},
}

TOWERS = {
    "CLIPVisionModel": ("clip", PICTURES),
    "CLIPTextModel": ("clip_text", WORDS),
    "SiglipVisionModel": ("siglip2", PICTURES),
    "SiglipTextModel": ("siglip2_text", WORDS),
    "DINOv3ViTModel": ("dinov3", {**SIZES, "patch_size": 8, "num_register_tokens": 0}),
    "Swinv2Model": (
        "swinv2",
        {
            **{"embed_dim": 12, "depths": [1, 2], "num_heads": [2, 3]},
            **{"window_size": 3, "image_size": [16, 24]},
        },
    ),
    "DeiTModel": ("deit", PICTURES),
    "ConvNextModel": ("convnext", {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 24, 32, 40]}),
    "ConvNextV2Model": ("convnext", {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 24, 32, 40]}),
    "Dinov2Model": ("dinov2", {**PICTURES, "use_mask_token": False}),
}
"""Classes of transformers, with the zoo's family and settings of a small network."""


@pytest.mark.parametrize(
    "name",
    default_rows(
        TOWERS,
        "CLIPVisionModel",
        "CLIPTextModel",
        "SiglipVisionModel",
        "DINOv3ViTModel",
        "Swinv2Model",
        "ConvNextV2Model",
        "Dinov2Model",
    ),
)
def test_a_custom_tower_agrees_with_transformers(name, tmp_path):
    family, settings = TOWERS[name]
    kind = getattr(transformers, name)
    torch.manual_seed(3)
    theirs = kind(kind.config_class(**settings)).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(0.2 * torch.randn_like(value))
    theirs.save_pretrained(tmp_path)
    if settings is WORDS:
        inputs = torch.tensor([[97, 5, 7, 9, 98, *[98] * 11]])
    else:
        inputs = torch.randn((1, 3, 32, 56), generator=torch.Generator().manual_seed(1))
    needs_option = settings is PICTURES
    with torch.no_grad():
        expected = theirs(inputs, **({"interpolate_pos_encoding": True} if needs_option else {}))
    value = inputs[0].numpy()
    actual = forward(
        package.from_pretrained(family, tmp_path),
        value.astype(np.int32) if settings is WORDS else value,
    )
    outputs = ("last_hidden_state", *(() if name == "DeiTModel" else ("pooler_output",)))
    if name.startswith("ConvNext"):  # transformers applies no norm to the last map
        outputs = ("pooler_output",)
    for output in outputs:
        np.testing.assert_allclose(
            getattr(actual, output), expected[output][0], rtol=0, atol=2e-5, err_msg=output
        )


@pytest.mark.each()
@pytest.mark.parametrize("name", ["SiglipVisionModel", "CLIPVisionModel"])
def test_a_folder_in_place_of_a_name(name, tmp_path):
    """`from_pretrained` accepts a folder, as in transformers.

    SigLIP without its pooling head has no pooled vector.
    """
    kind = getattr(transformers, name)
    settings = {**PICTURES, **({"vision_use_head": False} if name.startswith("Sig") else {})}
    torch.manual_seed(3)
    theirs = kind(kind.config_class(**settings)).eval()
    theirs.save_pretrained(tmp_path)
    picture = torch.randn((1, 3, 40, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(picture).last_hidden_state[0]
    actual = forward(package.from_pretrained(f"{tmp_path}/"), picture[0].numpy())
    np.testing.assert_allclose(actual.last_hidden_state, expected, rtol=0, atol=2e-5)
    assert (actual.pooler_output is None) == name.startswith("Sig")
