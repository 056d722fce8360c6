"""Checkpoints of somebody's own: other classes, other sizes, and no name of a model; and networks
of transformers without what those that are published have: projections, registers."""

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
from weights.mapping import plan, source_shapes
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
from zoo.export.describe import describe_shared
from zoo.export.request import Signature

NOISE = 1e-5
"""Four times the largest difference of logits of about 1 between PyTorch and ONNX Runtime here."""

AREA_NOISE = 5e-5
"""The same of masks, whose logits are some tens."""


def assert_logits(file, own):
    """A file's are those of where the checkpoint was trained, for two pictures."""
    session = onnxruntime.InferenceSession(file)
    pictures = np.random.default_rng(5).standard_normal((2, 3, *own.size), np.float32)
    (got,) = session.run(["logits"], {"pixel_values": pictures})
    with torch.no_grad():
        want = own.logits(torch.from_numpy(pictures)).numpy()
    assert np.ptp(want) > 0.5
    np.testing.assert_allclose(got, want, rtol=0, atol=NOISE)


def size_of(own):
    return "{}x{}".format(*own.size)


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("kind", OWN)
def test_a_checkpoint_without_a_name(kind, opset, zoo, tmp_path):
    """It is known by its tensors, its classes have their names, and its file computes the same."""
    own = OWN[kind](tmp_path / "own")
    said = zoo(
        *("export", "--size", size_of(own), "--opset", opset, "--out", "w.onnx"),
        *("--weights", own.path),
    )
    assert_logits(zoo.here / "w.onnx", own)
    told = json.loads((zoo.here / "w.manifest.json").read_text())
    named = own.path.is_dir() or (own.path.parent / "config.json").is_file()
    assert told["classes"] == (list(CLASSES) if named else ["0", "1", "2"])
    # In a size of the registry it is called by its name there.
    called = {told.get("family"), told["model"], "vit_tiny_patch16_224"}
    assert any(f"is {name}: " in said.err for name in called) and "3 classes" in said.err
    zoo("verify", "w.onnx", "--weights", own.path)


@pytest.mark.each()
@pytest.mark.parametrize(
    ("kind", "opset"),
    [
        *(("masked eomt", 23), ("masked eomt", 18), ("eomt masked once", 23), ("patches", 18)),
        pytest.param("eomt", 23, marks=pytest.mark.full),
    ],
)
def test_areas_of_a_network_without_a_name(kind, opset, zoo, tmp_path):
    """In sizes of no table; masks of pictures that are no squares."""
    own = AREAS[kind](tmp_path / "own")
    said = zoo(
        *("export", "--weights", own.path, "--size", size_of(own), "--opset", opset),
        *("--out", "w.onnx"),
    )
    pictures = np.random.default_rng(5).standard_normal((2, 3, *own.size), np.float32)
    want = own.outputs(torch.from_numpy(pictures))
    session = onnxruntime.InferenceSession(zoo.here / "w.onnx")
    for name, got in zip(want, session.run([*want], {"pixel_values": pictures}), strict=True):
        assert np.ptp(want[name]) > 0.5
        np.testing.assert_allclose(got, want[name], rtol=0, atol=AREA_NOISE)
    assert f"is {own.family}: " in said.err and "3 classes" in said.err
    told = json.loads((zoo.here / "w.manifest.json").read_text())
    assert told["classes"] == list(CLASSES)


@pytest.mark.parametrize("kind", ["eomt", "masked eomt"])
def test_transformers_reads_what_is_written_of_masks(kind, zoo, tmp_path):
    """Its class is the same network, whose masks hide patches in the same blocks."""
    own = AREAS[kind](tmp_path / "own")
    zoo("weights", "convert", own.path, "hf")
    model = transformers.AutoModelForUniversalSegmentation.from_pretrained(zoo.here / "hf").eval()
    assert (model.config.image_size, [*model.config.id2label.values()]) == (64, [*CLASSES])
    model.grid_size = (2, 3)
    pictures = torch.randn((1, 3, 32, 48), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        found = model(pictures)
    for name, value in own.outputs(pictures).items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=AREA_NOISE)


def test_an_activation_that_no_published_network_has(zoo, tmp_path):
    """It is in the settings, and computed."""
    own = OWN["vit"](tmp_path / "own", hidden_act="relu")
    zoo("export", "--weights", own.path, "--size", size_of(own), "--out", "w.onnx")
    assert_logits(zoo.here / "w.onnx", own)


@pytest.mark.full
def test_leaves_that_equinox_wrote(zoo, tmp_path):
    """The last records are a classifier of another width than the registry's."""
    own = OWN["meta, one file"](tmp_path / "own")
    model = package.from_pretrained("dinov2_vits14_reg", own.path)
    eqx.tree_serialise_leaves("w.eqx", model)
    zoo("export", "--weights", "w.eqx", "--size", size_of(own), "--out", "w.onnx")
    assert_logits(zoo.here / "w.onnx", own)


def test_a_manifest_states_every_network():
    """In sizes of its own, with classes of its own: what it says makes the same network again."""
    for entry in (package.info(name) for name in REPRESENTATIVES):
        config, names = nano(entry.config), CLASSES
        if isinstance(config, DepthConfig) or getattr(config, "projection", None):
            names = ()  # a head would take vectors as wide as tokens
        else:
            config = replace(config, classes=3)
        own = replace(entry.as_unpublished, config=config, labels=names)
        said = describe_shared(own, Signature((64, 96), None), Provenance("random", seed=1))
        again = entry_of_manifest(Manifest.model_validate_json(said.model_dump_json()))
        assert (again.config, again.class_names, again.name) == (own.config, names, own.name)
        assert again.licence == own.licence


def test_a_tower_of_a_known_size_is_not_all(tmp_path):
    """Beside texts with another vocabulary, as SigLIP 1 has."""
    entry = package.info("siglip2_vitb16_224_dual")
    config = DualConfig(entry.config.vision, replace(entry.config.words, vocabulary=96))
    shapes = source_shapes(plan(entry.namings[0].rules, model_shapes(config)))
    tensors = {key: LazyTensor(shape, "float32", dict) for key, shape in shapes.items()}
    found = rank_networks(Checkpoint(tmp_path, "safetensors", (), tensors), None)
    assert {each.config.words.vocabulary for each in found} == {96}


def test_sizes_that_are_sound_make_a_network():
    """Whatever is said of them in a manifest that somebody wrote, with parts of any two."""
    rng = np.random.default_rng(3)
    known = [nano(package.info(name).config) for name in REPRESENTATIVES]
    sound = 0
    for _ in range(80):
        config, other = (known[number] for number in rng.integers(len(known), size=2))
        if type(config) is not type(other):
            continue
        for name in map(str, rng.choice([each.name for each in fields(config)], 3)):
            number = int(rng.integers(-1, 12))
            found = getattr(other, name)
            config = replace(config, **{name: number if type(found) is int else found})
        if isinstance(config, ViTConfig) and rng.integers(2):
            config = replace(config, head_tokens=int(rng.integers(-1, 4)))
        if config.is_sound:
            sound += 1
            # Its input is of whole patches.
            side = 2 * config.stride
            picture = jax.ShapeDtypeStruct((3, side, 3 * side), "float32")
            output = eqx.filter_eval_shape(lambda m, x: m(x), abstract(config), picture)
            wide = {DepthConfig: 3 * side, SegmenterConfig: 6}.get(type(config), config.dim)
            if isinstance(config, MaskConfig):
                wide = config.classes + 1
            if config.task.name == "object-detection":
                wide = config.classes
            assert output[0].shape[-1] == wide
    assert sound > 15


def varied(config, number):
    """The configuration with another number in each of its fields, and in those of its parts."""
    for field in fields(config):
        name, value = field.name, getattr(config, field.name)
        if type(value) is int:
            yield name, replace(config, **{name: number})
        elif isinstance(value, tuple) and value and all(type(each) is int for each in value):
            yield name, replace(config, **{name: (number, *value[1:])})
        elif is_dataclass(value):
            parts = varied(value, number)
            yield from ((f"{name}.{part}", replace(config, **{name: it})) for part, it in parts)


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_sizes_that_are_not_sound(name):
    config = package.info(name).config
    assert config.is_sound and nano(config).is_sound
    for number in (-1, 10**12):
        sound = {where for where, made in varied(config, number) if made.is_sound}
        assert sound <= {"rope.length"}  # what angles are multiplied by


@pytest.mark.parametrize("kind", default_rows(["vit", "vit on no square"], "vit on no square"))
def test_what_is_asked_for_is_enough(kind, zoo, tmp_path):
    """A `config.json` with what the refusal says, and nothing else."""
    own = OWN[kind](tmp_path / "own")
    path, written = own.path / "config.json", {"num_attention_heads": 4}
    if kind != "vit":
        path.write_text(json.dumps(written))
        said = zoo("export", "--weights", own.path, code=2).error
        assert "28 positions are of no square grid" in said and '"image_size": [HEIGHT' in said
        written["image_size"] = [32, 56]
    path.write_text(json.dumps(written))
    model = package.from_pretrained("vit", own.path)
    picture = np.random.default_rng(5).standard_normal((3, *own.size), np.float32)
    want = own.logits(torch.from_numpy(picture[None]))[0].detach()
    # The epsilon of norms is another where nobody says it.
    got = model(jax.numpy.asarray(picture)).logits
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)


def settings(folder, **others):
    """Those beside a checkpoint, with others."""
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**told, **others}))


def masked(folder):
    """As in the middle of a training in which masks hide patches less and less often."""
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
        *("timm's dinov3", lambda folder: settings(folder, num_attention_heads=None)),
        "dinov3 of 32 channels: no tensor tells how many heads",
    ),
    "heads that cannot be": (
        *("vit", lambda folder: settings(folder, num_attention_heads=7)),
        "7 heads cannot share 48 channels",
    ),
    "heads that cannot be rotated": (
        *("timm's dinov3", lambda folder: settings(folder, num_attention_heads=16)),
        "16 heads cannot share 32 channels",
    ),
    "another network": (
        *("vit", lambda folder: settings(folder, hidden_act="silu")),
        "says that hidden_act is 'silu', and the zoo's network has gelu",
    ),
    "another activation of timm's": (
        *("timm's dinov2", lambda folder: settings(folder, model_args={"act_layer": "silu"})),
        "act_layer is 'silu'",
    ),
    "another pool": (
        *("timm's dinov2", lambda folder: settings(folder, global_pool="catavgmax")),
        "global_pool is 'catavgmax'",
    ),
    "another crop": (
        *("timm's dinov2", lambda folder: settings(folder, pretrained_cfg={"crop_mode": "border"})),
        "crop_mode` is 'border'",
    ),
    "pictures that are no squares": (
        "timm's dinov2",
        lambda folder: settings(folder, pretrained_cfg={"input_size": [3, 70, 98]}),
        "input_size is not square",
    ),
    "other positions": (
        *("swinv2", lambda folder: settings(folder, use_absolute_embeddings=True)),
        "use_absolute_embeddings is True",
    ),
    "windows of any size": (
        *("swinv2", lambda folder: (folder / "config.json").unlink()),
        r"no tensor tells how large its windows are\. Write {\"window_size\": NUMBER",
    ),
    "four channels": ("vit", lambda folder: OWN["vit"](folder, num_channels=4), "of 4 channels"),
    "a grid of other sides": (
        *("vit on no square", lambda folder: settings(folder, image_size=[40, 64])),
        "28 positions are of no square",
    ),
    "names of other classes": (
        *("dinov2", lambda folder: settings(folder, id2label={"0": "one", "1": "two"})),
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


SLOW = ("a backbone that its name contradicts",)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.full] * (case in SLOW)) for case in WRONG]
)
def test_what_cannot_be_known(case, zoo, tmp_path):
    """One sentence, and nothing is written."""
    kind, spoil, message = WRONG[case]
    own = (OWN | AREAS)[kind](tmp_path / "own")
    spoil(tmp_path / "own")
    assert re.search(message, zoo("export", "--weights", own.path, code=2).error)
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
def test_a_tower_of_its_own(name, tmp_path):
    family, settings = TOWERS[name]
    kind = getattr(transformers, name)
    torch.manual_seed(3)
    theirs = kind(kind.config_class(**settings)).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(0.2 * torch.randn_like(value))
    theirs.save_pretrained(tmp_path)
    if settings is WORDS:
        given = torch.tensor([[97, 5, 7, 9, 98, *[98] * 11]])
    else:
        given = torch.randn((1, 3, 32, 56), generator=torch.Generator().manual_seed(1))
    asks = settings is PICTURES
    with torch.no_grad():
        want = theirs(given, **({"interpolate_pos_encoding": True} if asks else {}))
    value = given[0].numpy()
    got = forward(
        package.from_pretrained(family, tmp_path),
        value.astype(np.int32) if settings is WORDS else value,
    )
    outputs = ("last_hidden_state", *(() if name == "DeiTModel" else ("pooler_output",)))
    if name.startswith("ConvNext"):  # whose map has no norm there
        outputs = ("pooler_output",)
    for output in outputs:
        np.testing.assert_allclose(
            getattr(got, output), want[output][0], rtol=0, atol=2e-5, err_msg=output
        )


@pytest.mark.each()
@pytest.mark.parametrize("name", ["SiglipVisionModel", "CLIPVisionModel"])
def test_a_folder_in_place_of_a_name(name, tmp_path):
    """As in transformers; SigLIP's without the head that pools, which then gives no vector."""
    kind = getattr(transformers, name)
    settings = {**PICTURES, **({"vision_use_head": False} if name.startswith("Sig") else {})}
    torch.manual_seed(3)
    theirs = kind(kind.config_class(**settings)).eval()
    theirs.save_pretrained(tmp_path)
    picture = torch.randn((1, 3, 40, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = theirs(picture).last_hidden_state[0]
    got = forward(package.from_pretrained(f"{tmp_path}/"), picture[0].numpy())
    np.testing.assert_allclose(got.last_hidden_state, want, rtol=0, atol=2e-5)
    assert (got.pooler_output is None) == name.startswith("Sig")
