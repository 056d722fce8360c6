"""TIPS, CLIP and dino.txt as checkpoints, files and folders, against transformers and PyTorch."""

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.numpy import save_file
from transformers import Tipsv2Model

import converter
import zoo as package
from tests.formats import small
from tests.references import clip, dinotxt, tips
from tests.references.running import file_state
from tests.references.towers import LABELS, ending_tokenizer, save_clip, tips_tokenizer
from tests.seeded import nano, values_of
from tests.synthetic import make_image, save_pth
from weights import open_checkpoint
from weights.errors import WeightsError
from weights.namings import tower_names
from zoo.architectures.builder import abstract
from zoo.checkpoints.load import load_checkpoint, named
from zoo.export.make import convert_model
from zoo.export.precision import derive
from zoo.export.precisions import PRECISIONS
from zoo.export.request import Signature
from zoo.images.photograph import photograph
from zoo.texts.tokenizer import read_tokenizer

ATOL = 1e-4
"""Measured: 2e-6 of vectors; of logits 3e-6, at temperatures of random weights."""

DUALS = {
    "tipsv2_vitb14_dual": tips,
    "clip_vitb32_dual": clip,
    "dinov3_vitl16_dinotxt_dual": dinotxt,
}
HEAD = "dinov3_vitl16_dinotxt_vision_head_and_text_encoder.pth"
BACKBONE = "visual_model.backbone."


def fed(config):
    """Pictures that are not square, and texts of several lengths, by what a file calls them."""
    ids = np.random.default_rng(3).integers(1, config.words.vocabulary, (3, config.words.tokens))
    ids[1, 9:], ids[2, 4:] = 0, 0
    if config.words.pool == "end":
        ids[[0, 1, 2], [-1, 8, 3]] = config.words.vocabulary - 1
    side = config.stride
    found = {"pixel_values": np.stack([make_image(seed, 3 * side, 5 * side) for seed in (1, 2)])}
    found |= {"input_ids": ids}
    return found | ({"attention_mask": (ids != 0).astype(ids.dtype)} if config.words.masked else {})


def in_pytorch(name, config, inputs):
    """What the reference gives of the same."""
    given = {name: torch.from_numpy(value) for name, value in inputs.items()}
    with torch.no_grad():
        if DUALS[name] is tips:
            return tips.both(config, values_of(config))(**given)
        if DUALS[name] is clip:
            both = clip.both(config, values_of(config))
            return both(**given, interpolate_pos_encoding=True)
        return dinotxt.both(config, values_of(config))(*given.values())


@pytest.mark.parametrize(
    "name",
    [
        *("tipsv2_vitb14_dual", "clip_vitb32_dual"),
        pytest.param("dinov3_vitl16_dinotxt_dual", marks=pytest.mark.full),
    ],
)
def test_files_agree_with_pytorch(name, tmp_path):
    """At both opsets, and in every precision as near as is asked of a network of its kind."""
    config = nano(package.info(name).config)
    inputs, path = fed(config), tmp_path / "model.onnx"
    wanted = in_pytorch(name, config, inputs)
    for opset in (18, 23):
        made = convert_model(abstract(config), opset, Signature(None, None))
        made.save(path, values_of(config))
        worst = differences(path, inputs, wanted)
        print(f"{name} at opset {opset}: {max(e.max_abs for e in worst.values()):.1e}")
        assert all(error.max_abs <= ATOL for error in worst.values()), worst
    for precision in ("fp16", "bf16", "int8", "q4", "q4f16"):
        derive(path, tmp_path / "less.onnx", precision, [*inputs.values()])
        if precision == "bf16":
            continue  # no CPU runtime computes in it
        found = differences(tmp_path / "less.onnx", inputs, wanted)
        vectors = {each: error for each, error in found.items() if each.endswith("embeds")}
        print(f"{name} in {precision}: {min(e.cosine for e in vectors.values()):.5f}")
        assert all(e.cosine >= PRECISIONS[precision].limit.value for e in vectors.values()), vectors


def differences(path, inputs, wanted):
    session = onnxruntime.InferenceSession(path)
    names = [each.name for each in session.get_outputs()]
    return {
        name: converter.compare(np.asarray(got), wanted[name].numpy())
        for name, got in zip(names, session.run(names, inputs), strict=True)
    }


def save_pair(folder, values, stem="tips_oss_b14_highres_distilled", axis=()):
    """Google's two files, whose temperature may have an axis."""
    for tower, prefix in (("vision", tower_names.IMAGES), ("text", tower_names.TEXTS)):
        state = file_state(tower_names.TIPS_DUAL, values)
        part = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if tower == "text":
            part["temperature"] = state["temperature"].reshape(axis)
        np.savez(folder / f"{stem}_{tower}.npz", **part)


def save_dinotxt(folder, values):
    """Meta's two files."""
    state = file_state(tower_names.DINOTXT_DUAL, values)
    body = {k.removeprefix(BACKBONE): v for k, v in state.items() if k.startswith(BACKBONE)}
    save_pth(folder / "dinov3_vitl16_pretrain_lvd1689m.pth", body)
    save_pth(folder / HEAD, {k: v for k, v in state.items() if not k.startswith(BACKBONE)})


def read(path, name):
    """The leaves that a small network of a name has of a checkpoint; a tower is that of both."""
    both = small(f"{name.removesuffix('_text').removesuffix('_dual')}_dual").config
    config = both if name.endswith("_dual") else both.words if "_text" in name else both.vision
    entry = replace(package.info(name), config=config, published={})
    loaded = load_checkpoint(named(open_checkpoint(path)), entry)
    return {leaf: loaded.weights.arrays[leaf] for leaf in loaded.weights.arrays}


def assert_same(found, values):
    assert found.keys() == values.keys()
    for leaf, value in found.items():
        np.testing.assert_array_equal(value, values[leaf], err_msg=leaf)


def under(values, prefix):
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


@pytest.mark.parametrize("axis", [(), (1,)])
def test_two_files_of_tips(axis, tmp_path):
    """A folder or the file of the tower for texts is both, beside the other; alone it is itself."""
    values = values_of(small("tips_vitb14_hr_dual").config)
    save_pair(tmp_path, values, axis=axis)
    text = tmp_path / "tips_oss_b14_highres_distilled_text.npz"
    for path in (tmp_path, text):
        assert_same(read(path, "tips_vitb14_hr_dual"), values)
        assert_same(read(path, "tips_vitb14_hr_text"), under(values, "words."))
        assert_same(read(path, "tips_vitb14_hr"), under(values, "vision."))
    (tmp_path / text.name.replace("_text", "_vision")).unlink()
    assert_same(read(text, "tipsv2_vitb14_text"), under(values, "words."))
    with pytest.raises(WeightsError, match="not those of a model"):
        read(text, "tips_vitb14_hr_dual")


def test_the_temperature_of_settings(tmp_path):
    """As those files are that were published for transformers, which name layers otherwise."""
    config = small("tipsv2_vitb14_dual").config
    values = values_of(config) | {"temperature": np.float32(0.0125)}
    tips.both(config, values).save_pretrained(tmp_path)
    assert_same(read(tmp_path, "tipsv2_vitb14_dual"), values)
    assert_same(read(tmp_path, "tipsv2_vitb14"), under(values, "vision."))
    settings = json.loads((tmp_path / "config.json").read_text())
    settings["temperature_init_value"] = 0.0125
    (tmp_path / "config.json").write_text(json.dumps(settings))
    for names in (tower_names.TIPS_DUAL, tower_names.HUB_TIPS_DUAL):
        bare = file_state(names, values)
        del bare["temperature"]
        save_file(bare, tmp_path / "model.safetensors")
        assert_same(read(tmp_path, "tipsv2_vitb14_dual"), values)
    (tmp_path / "config.json").unlink()
    with pytest.raises(WeightsError, match="1 missing: temperature"):
        read(tmp_path, "tipsv2_vitb14_dual")


def test_two_files_of_dinotxt(tmp_path):
    config = small("dinov3_vitl16_dinotxt_dual").config
    save_dinotxt(tmp_path, values := values_of(config))
    for path in (tmp_path, tmp_path / HEAD):
        assert_same(read(path, "dinov3_vitl16_dinotxt_dual"), values)
        assert_same(read(path, "dinov3_vitl16_dinotxt_text"), under(values, "words."))
    (tmp_path / "dinov3_vitl16_pretrain_lvd1689m.pth").unlink()
    with pytest.raises(WeightsError, match="head without its backbone"):
        read(tmp_path, "dinov3_vitl16_dinotxt_dual")


def test_written_for_others(zoo):
    """Google's pair becomes a folder of transformers, Meta's one file of the whole network."""
    heads = {"num_attention_heads": 2}
    told = json.dumps({"vision_config": heads, "text_config": heads})
    config = small("tipsv2_vitb14_dual").config
    for folder in ("google", "meta"):
        (zoo.here / folder).mkdir()
        (zoo.here / folder / "config.json").write_text(told)
    save_pair(zoo.here / "google", values_of(config), "tips_v2_oss_b14")
    zoo("weights", "convert", "google", "hub")
    model, inputs = Tipsv2Model.from_pretrained(zoo.here / "hub").eval(), fed(config)
    with torch.no_grad():
        got = model(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    wanted = in_pytorch("tipsv2_vitb14_dual", config, inputs)
    torch.testing.assert_close(got.logits_per_image, wanted.logits_per_image)
    values = values_of(small("dinov3_vitl16_dinotxt_dual").config)
    save_dinotxt(zoo.here / "meta", values)
    zoo("weights", "convert", "meta", "whole.pth")
    assert_same(read(zoo.here / "whole.pth", "dinov3_vitl16_dinotxt_dual"), values)


def build_tips(folder):
    config = small("tipsv2_vitb14_dual").config
    tips.both(config, values_of(config)).save_pretrained(folder)
    tips_tokenizer().save_pretrained(folder)
    return config


def build_dinotxt(folder):
    config = small("dinov3_vitl16_dinotxt_dual").config
    folder.mkdir()
    save_dinotxt(folder, values_of(config))
    heads = {"num_attention_heads": 2}
    (folder / "config.json").write_text(json.dumps({"vision_config": heads, "text_config": heads}))
    ending_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<|endoftext|>"}')
    return config


def test_padding_is_told_as_transformers_tells_it(tmp_path):
    words, texts = tips_tokenizer(), ["A CAT in the Sky.", "dog", "cat " * 99]
    words.save_pretrained(tmp_path)
    wanted = words(texts, padding="max_length", max_length=64, truncation=True)
    for name, value in read_tokenizer(tmp_path, 64).encoded(texts).items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


@pytest.mark.parametrize(
    ("save", "name"),
    [
        (save_clip, "clip_vitb32_dual"),
        pytest.param(build_tips, "tipsv2_vitb14_dual", marks=pytest.mark.full),
        pytest.param(build_dinotxt, "dinov3_vitl16_dinotxt_dual", marks=pytest.mark.full),
    ],
)
def test_a_folder_says_which_label_fits_best(save, name, zoo):
    """Labels exclude each other: together they make 1."""
    config = save(zoo.here / "own")
    side = 4 * config.stride
    zoo("build", "--weights", "own", "--out", "made", "--variant", "fp32", "--size", side)
    folder = zoo.here / "made" / "own"
    assert {each.name for each in (folder / "onnx").iterdir()} == {
        *("model.onnx", "text_model.onnx", "vision_model.onnx"),
    }
    zoo("verify", folder)
    built, image = package.load(str(folder)), photograph().resize((side, side))
    sentences = [f"This is a photo of {label}." for label in LABELS]
    given = {"pixel_values": built.preprocess(image), **built.tokenizer.encoded(sentences)}
    if not config.words.masked:
        del given["attention_mask"]
    logits = in_pytorch(name, config, given)["logits_per_image"]
    order = torch.softmax(logits, -1)[0].sort(descending=True, stable=True)
    found = built.classify(image, LABELS)
    assert [each.label for each in found] == [LABELS[place] for place in order.indices]
    np.testing.assert_allclose([each.score for each in found], order.values, rtol=0, atol=1e-5)
    how = built.manifest.similarity
    cosines = built.image(image) @ built.text(sentences).T
    assert how.probabilities == "softmax" and how.bias == 0
    np.testing.assert_allclose(how.scale * cosines, logits, rtol=0, atol=ATOL)
    image.save(zoo.here / "seen.png")
    assert found[0].label in zoo("run", folder, "--labels", ", ".join(LABELS), "seen.png").out
