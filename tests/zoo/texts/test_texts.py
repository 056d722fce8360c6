"""Towers for texts, alone and with a tower for pictures, as checkpoints, files and folders.

Those of SigLIP, TIPS, CLIP and dino.txt are compared with transformers and PyTorch.
"""

import json
from functools import partial

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.numpy import save_file
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    CLIPModel,
    CLIPTextModelWithProjection,
    Tipsv2Model,
    pipeline,
)

import converter
import zoo as package
from tests.formats import small
from tests.references import clip, dinotxt, tips
from tests.references.running import file_state
from tests.references.towers import (
    LABELS,
    SENTENCES,
    ending_tokenizer,
    save_clip,
    save_towers,
    tips_tokenizer,
)
from tests.seeded import nano, values_of
from tests.synthetic import make_image, save_pth
from weights import LazyTensor, open_checkpoint
from weights.errors import WeightsError
from weights.files import Checkpoint
from weights.mapping import plan_leaves, source_shapes
from weights.namings import clip_names, tower_names
from zoo.architectures.builder import abstract
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.identify import rank_networks
from zoo.checkpoints.load import load_checkpoint, model_shapes, with_leaf_names
from zoo.checkpoints.settings.library_configs import transformers_config
from zoo.common.errors import BadFile, BadRequest
from zoo.export.make import convert_model
from zoo.export.precision import write_lower_precision
from zoo.export.precisions import PRECISIONS
from zoo.export.request import Signature
from zoo.images.photograph import photograph
from zoo.texts.tokenizer import read_tokenizer

CLIP = "clip_vitb32_dual"

ATOL = 1e-4
"""Limit of a difference.

Measured: 2e-6 for vectors, and 3e-6 for logits at the temperatures of random weights.
"""

DUALS = {
    "tipsv2_vitb14_dual": tips,
    CLIP: clip,
    "dinov3_vitl16_dinotxt_dual": dinotxt,
}
"""Models with both towers, and their references."""
HEAD = "dinov3_vitl16_dinotxt_vision_head_and_text_encoder.pth"
BACKBONE = "visual_model.backbone."


def make_inputs(config):
    """Return pictures that are not square, and texts of several lengths, by the names of inputs."""
    ids = np.random.default_rng(3).integers(1, config.words.vocabulary, (3, config.words.tokens))
    ids[1, 9:], ids[2, 4:] = 0, 0
    if config.words.pool == "end":
        ids[[0, 1, 2], [-1, 8, 3]] = config.words.vocabulary - 1
    side = config.stride
    inputs = {"pixel_values": np.stack([make_image(seed, 3 * side, 5 * side) for seed in (1, 2)])}
    inputs |= {"input_ids": ids}
    return inputs | (
        {"attention_mask": (ids != 0).astype(ids.dtype)} if config.words.masked else {}
    )


def in_pytorch(name, config, inputs):
    """Return the outputs of the reference for these inputs."""
    reference = DUALS[name].both(config, values_of(config))
    if DUALS[name] is clip:
        reference = partial(reference, interpolate_pos_encoding=True)
    if DUALS[name] is not dinotxt:
        return run_torch(reference, **inputs)
    with torch.no_grad():
        return reference(*map(torch.from_numpy, inputs.values()))


@pytest.mark.parametrize(
    "name",
    [
        CLIP,
        *(pytest.param(name, marks=pytest.mark.full) for name in DUALS if name != CLIP),
    ],
)
def test_files_agree_with_pytorch(name, tmp_path):
    """Files agree at both opsets, and in every precision within the limit of that precision."""
    config = nano(package.info(name).config)
    inputs, path = make_inputs(config), tmp_path / "model.onnx"
    expected = in_pytorch(name, config, inputs)
    for opset in (18, 23):
        converted = convert_model(abstract(config), opset, Signature(None, None))
        converted.save(path, values_of(config))
        errors = differences(path, inputs, expected)
        assert all(error.max_abs <= ATOL for error in errors.values()), errors
    for precision in ("fp16", "int8", "q4", "q4f16"):
        write_lower_precision(path, tmp_path / "less.onnx", precision, [*inputs.values()])
        errors = differences(tmp_path / "less.onnx", inputs, expected)
        vectors = {output: error for output, error in errors.items() if output.endswith("embeds")}
        assert all(e.cosine >= PRECISIONS[precision].limit.value for e in vectors.values()), vectors


def differences(path, inputs, expected):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return {
        name: converter.compare(np.asarray(actual), expected[name].numpy())
        for name, actual in zip(names, session.run(names, inputs), strict=True)
    }


def save_pair(folder, values, stem="tips_oss_b14_highres_distilled", axis=()):
    """Write Google's two files. `axis` is the shape of the temperature."""
    for tower, prefix in (("vision", tower_names.IMAGES), ("text", tower_names.TEXTS)):
        state = file_state(tower_names.TIPS_DUAL, values)
        tower_state = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if tower == "text":
            tower_state["temperature"] = state["temperature"].reshape(axis)
        np.savez(folder / f"{stem}_{tower}.npz", **tower_state)


def save_dinotxt(folder, values):
    """Write Meta's two files."""
    state = file_state(tower_names.DINOTXT_DUAL, values)
    backbone_state = {
        k.removeprefix(BACKBONE): v for k, v in state.items() if k.startswith(BACKBONE)
    }
    save_pth(folder / "dinov3_vitl16_pretrain_lvd1689m.pth", backbone_state)
    save_pth(folder / HEAD, {k: v for k, v in state.items() if not k.startswith(BACKBONE)})


def read(path, name):
    """Return the leaves that the small network of a model reads from a checkpoint.

    A tower is one of the two towers of the small network with both.
    """
    both = small(f"{name.removesuffix('_text').removesuffix('_dual')}_dual").config
    config = both if name.endswith("_dual") else both.words if "_text" in name else both.vision
    entry = package.info(name).with_config(config)
    loaded = load_checkpoint(with_leaf_names(open_checkpoint(path)), entry)
    return {leaf: loaded.weights.arrays[leaf] for leaf in loaded.weights.arrays}


def assert_same(arrays, values):
    assert arrays.keys() == values.keys()
    for leaf, value in arrays.items():
        np.testing.assert_array_equal(value, values[leaf], err_msg=leaf)


def with_prefix(values, prefix):
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


@pytest.mark.each()
@pytest.mark.parametrize("axis", [(), (1,)])
def test_two_files_of_tips(axis, tmp_path):
    """A folder is read as both towers, and so is the text tower's file beside the other file.

    Each tower can also be read alone. A single file is not read as both.
    """
    values = values_of(small("tips_vitb14_hr_dual").config)
    save_pair(tmp_path, values, axis=axis)
    text = tmp_path / "tips_oss_b14_highres_distilled_text.npz"
    for path in (tmp_path, text):
        assert_same(read(path, "tips_vitb14_hr_dual"), values)
        assert_same(read(path, "tips_vitb14_hr_text"), with_prefix(values, "words."))
        assert_same(read(path, "tips_vitb14_hr"), with_prefix(values, "vision."))
    (tmp_path / text.name.replace("_text", "_vision")).unlink()
    assert_same(read(text, "tipsv2_vitb14_text"), with_prefix(values, "words."))
    with pytest.raises(WeightsError, match="not those of a model"):
        read(text, "tips_vitb14_hr_dual")


def test_the_temperature_of_settings(tmp_path):
    """The temperature may be in the settings alone.

    This is so in the files that were published for transformers, which have other names of layers.
    """
    config = small("tipsv2_vitb14_dual").config
    values = values_of(config) | {"temperature": np.float32(0.0125)}
    tips.both(config, values).save_pretrained(tmp_path)
    assert_same(read(tmp_path, "tipsv2_vitb14_dual"), values)
    assert_same(read(tmp_path, "tipsv2_vitb14"), with_prefix(values, "vision."))
    settings = json.loads((tmp_path / "config.json").read_text())
    settings["temperature_init_value"] = 0.0125
    (tmp_path / "config.json").write_text(json.dumps(settings))
    for names in (tower_names.TIPS_DUAL, tower_names.HUB_TIPS_DUAL):
        without_temperature = file_state(names, values)
        del without_temperature["temperature"]
        save_file(without_temperature, tmp_path / "model.safetensors")
        assert_same(read(tmp_path, "tipsv2_vitb14_dual"), values)
    (tmp_path / "config.json").unlink()
    with pytest.raises(WeightsError, match="1 missing: temperature"):
        read(tmp_path, "tipsv2_vitb14_dual")


def test_two_files_of_dinotxt(tmp_path):
    config = small("dinov3_vitl16_dinotxt_dual").config
    save_dinotxt(tmp_path, values := values_of(config))
    for path in (tmp_path, tmp_path / HEAD):
        assert_same(read(path, "dinov3_vitl16_dinotxt_dual"), values)
        assert_same(read(path, "dinov3_vitl16_dinotxt_text"), with_prefix(values, "words."))
    (tmp_path / "dinov3_vitl16_pretrain_lvd1689m.pth").unlink()
    with pytest.raises(WeightsError, match="head without its backbone"):
        read(tmp_path, "dinov3_vitl16_dinotxt_dual")


def save_openai(folder, values):
    """Write OpenAI's names as OpenCLIP does."""
    state = file_state(clip_names.ORIGINAL_DUAL, values)
    state = {key: np.array(value, order="C") for key, value in state.items()}
    save_file(state, folder / "open_clip_model.safetensors")


@pytest.fixture
def folder_with_heads(zoo):
    """A folder with the numbers of heads of both towers, which no tensor determines."""
    heads = {"num_attention_heads": 2}
    (zoo.here / "theirs").mkdir()
    settings = json.dumps({"vision_config": heads, "text_config": heads})
    (zoo.here / "theirs" / "config.json").write_text(settings)
    return zoo.here / "theirs"


@pytest.mark.parametrize(
    ("name", "save", "model_class"),
    [
        ("tipsv2_vitb14_dual", partial(save_pair, stem="tips_v2_oss_b14"), Tipsv2Model),
        (CLIP, save_openai, CLIPModel),
    ],
)
def test_transformers_reads_converted_checkpoints(name, save, model_class, folder_with_heads, zoo):
    """Google's files, and a file with OpenAI's names, become folders of transformers."""
    config = small(name).config
    save(folder_with_heads, values_of(config))
    zoo(
        "weights",
        "convert",
        *([folder_with_heads] if name != CLIP else folder_with_heads.glob("*.safetensors")),
        "hub",
    )
    model, inputs = model_class.from_pretrained(zoo.here / "hub").eval(), make_inputs(config)
    options = {"interpolate_pos_encoding": True} if name == CLIP else {}
    actual = run_torch(partial(model, **options), **inputs)
    expected = in_pytorch(name, config, inputs)
    torch.testing.assert_close(actual.logits_per_image, expected.logits_per_image)


def test_two_files_of_meta_become_one(folder_with_heads, zoo):
    values = values_of(small("dinov3_vitl16_dinotxt_dual").config)
    save_dinotxt(folder_with_heads, values)
    zoo("weights", "convert", folder_with_heads, "whole.pth")
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


def test_masks_of_padding_are_those_of_transformers(tmp_path):
    tokenizer, texts = tips_tokenizer(), ["A CAT in the Sky.", "dog", "cat " * 99]
    tokenizer.save_pretrained(tmp_path)
    expected = tokenizer(texts, padding="max_length", max_length=64, truncation=True)
    for name, value in read_tokenizer(tmp_path, 64).encode(texts).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.parametrize(
    ("save", "name"),
    [
        (save_clip, CLIP),
        pytest.param(build_tips, "tipsv2_vitb14_dual", marks=pytest.mark.full),
        pytest.param(build_dinotxt, "dinov3_vitl16_dinotxt_dual", marks=pytest.mark.full),
    ],
)
def test_a_folder_ranks_labels(save, name, zoo):
    """The scores of labels sum to 1."""
    config = save(zoo.here / "own")
    side = 4 * config.stride
    zoo("build", "--weights", "own", "--out", "made", "--variant", "fp32", "--size", side)
    folder = zoo.here / "made" / "own"
    assert {path.name for path in (folder / "onnx").iterdir()} == {
        *("model.onnx", "text_model.onnx", "vision_model.onnx"),
    }
    zoo("verify", folder)
    built, image = package.load(str(folder)), photograph().resize((side, side))
    sentences = [f"This is a photo of {label}." for label in LABELS]
    inputs = {"pixel_values": built.preprocess(image), **built.tokenizer.encode(sentences)}
    if not config.words.masked:
        del inputs["attention_mask"]
    logits = in_pytorch(name, config, inputs)["logits_per_image"]
    order = torch.softmax(logits, -1)[0].sort(descending=True, stable=True)
    answers = built.classify(image, LABELS)
    assert [answer.label for answer in answers] == [LABELS[index] for index in order.indices]
    np.testing.assert_allclose(
        [answer.score for answer in answers], order.values, rtol=0, atol=1e-5
    )
    similarity = built.manifest.similarity
    cosines = built.image(image) @ built.text(sentences).T
    assert similarity.probabilities == "softmax" and similarity.bias == 0
    np.testing.assert_allclose(similarity.scale * cosines, logits, rtol=0, atol=ATOL)
    image.save(zoo.here / "seen.png")
    assert answers[0].label in zoo("run", folder, "--labels", ", ".join(LABELS), "seen.png").out


@pytest.fixture
def config():
    return small(CLIP).config


def module_tree(state, dtype):
    """Return a module whose parameters have these names, as in OpenAI's file."""
    root = torch.nn.Module()
    for key, value in state.items():
        *path, leaf = key.split(".")
        module = root
        for name in path:
            if name not in dict(module.named_children()):
                module.add_module(name, torch.nn.Module())
            module = getattr(module, name)
        parameter = torch.from_numpy(np.array(value)).to(dtype)
        module.register_parameter(leaf, torch.nn.Parameter(parameter))
    root.register_buffer("input_resolution", torch.tensor(128))
    return root


def assert_reads(path, name, values):
    dual_config = small(CLIP).config
    tower_config = {"dual": dual_config, "text": dual_config.words}.get(
        name.rpartition("_")[2], dual_config.vision
    )
    entry = package.info(name).with_config(tower_config)
    arrays = load_checkpoint(open_checkpoint(path), entry).weights.arrays
    assert {*arrays} == {*values}
    for leaf, value in values.items():
        np.testing.assert_array_equal(arrays[leaf], value, err_msg=leaf)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("form", ["safetensors", "torchscript"])
def test_the_names_of_openai_and_open_clip(form, config, tmp_path):
    """Each tower is read from a file of both.

    OpenAI's file is in half precision and contains code.
    """
    values = values_of(config)
    state = file_state(clip_names.ORIGINAL_DUAL, values)
    assert state["visual.proj"].shape == (32, 24) and state["logit_scale"].shape == ()
    path = tmp_path / {"safetensors": "open_clip_model.safetensors"}.get(form, "ViT-B-32.pt")
    if form == "safetensors":
        save_openai(tmp_path, values)
    else:
        torch.jit.save(torch.jit.script(module_tree(state, torch.float16)), path)
        values = {k: v.astype(np.float16).astype(np.float32) for k, v in values.items()}
    assert_reads(path, CLIP, values)
    for prefix, name in (("vision.", "clip_vitb32"), ("words.", "clip_vitb32_text")):
        tower = {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
        assert_reads(path, name, tower)


def run_torch(model, **arrays):
    with torch.no_grad():
        return model(**{name: torch.from_numpy(value) for name, value in arrays.items()})


@pytest.mark.parametrize(
    ("end", "opset"),
    [(2, 23), (17, 18), *(pytest.param(*x, marks=pytest.mark.full) for x in ((95, 18), (17, 23)))],
)
def test_the_end_token_of_a_tower_for_texts(end, opset, config, zoo):
    """The end of a text depends on `eos_token_id`.

    If it is 2, the text ends at the greatest number, otherwise at the first token with that number.
    """
    both_towers = clip.both(config, values_of(config))
    both_towers.text_model.config.eos_token_id = both_towers.config.text_config.eos_token_id = end
    model = CLIPTextModelWithProjection(both_towers.config.text_config).eval()
    model.load_state_dict(both_towers.state_dict(), strict=False)
    model.save_pretrained(zoo.here / "own")
    zoo("export", "--weights", "own", "--opset", opset, "--out", "w.onnx")
    ids = np.random.default_rng(0).integers(20, 95, (3, 11))
    ids[[0, 1, 2], [10, 4, 1]] = 95 if end == 2 else end
    ids[1, 5:] = 95
    session = onnxruntime.InferenceSession("w.onnx")
    assert session.get_inputs()[0].shape == ["batch_size", "sequence_length"]
    names = ["last_hidden_state", "text_embeds", "pooler_output"]
    actual = dict(zip(names, session.run(names, {"input_ids": ids}), strict=True))
    expected = run_torch(model, input_ids=ids)
    np.testing.assert_array_equal(actual["pooler_output"], actual["text_embeds"])
    for name in names[:2]:
        np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.each()
@pytest.mark.parametrize("name", [CLIP, "clip_vitb32_laion2b_dual"])
def test_settings_say_who_trained_a_network(name, tmp_path):
    """OpenAI's and LAION's networks have the same tensors, but different GELUs."""
    entry = package.info(name)
    shapes = source_shapes(plan_leaves(clip_names.CLIP_DUAL.rules, model_shapes(entry.config)))
    tensors = {
        key: LazyTensor(shape, "float32", lambda shape=shape: np.zeros(shape, np.float32))
        for key, shape in shapes.items()
    }
    checkpoint = Checkpoint(tmp_path, "safetensors", (), tensors)
    settings = Settings.model_validate_json(
        json.dumps(transformers_config(entry.config, (), False))
    )
    assert [network.entry.name for network in rank_networks(checkpoint, settings)] == [name]
    assert len(rank_networks(checkpoint, None)) == 2


NOISE = 1e-5
"""Limit of a difference of vectors of length 1.

It is ten times the largest measured difference between PyTorch and ONNX Runtime.
"""


def ids_of(folder):
    """Return the numbers that transformers' tokenizer gives for sentences."""
    options = {"padding": "max_length", "max_length": 64, "truncation": True}
    encoding = AutoTokenizer.from_pretrained(folder)([*SENTENCES, "cat " * 99], **options)
    return np.array(encoding["input_ids"])


@pytest.fixture
def checkpoint_folder(tmp_path):
    return tmp_path / "own"


def test_texts_become_the_numbers_of_transformers(checkpoint_folder):
    save_towers(checkpoint_folder)
    tokenize = read_tokenizer(checkpoint_folder, 64)
    np.testing.assert_array_equal(tokenize([*SENTENCES, "cat " * 99]), ids_of(checkpoint_folder))


@pytest.mark.parametrize("opset", [pytest.param(18, marks=pytest.mark.full), 23])
def test_a_tower_for_texts_as_a_file(opset, zoo, checkpoint_folder):
    model = save_towers(checkpoint_folder)
    ids = ids_of(checkpoint_folder)
    model.text_model.save_pretrained(zoo.here / "texts")
    zoo("export", "--weights", "texts", "--opset", opset, "--out", "w.onnx")
    session = onnxruntime.InferenceSession("w.onnx")
    (only_input,) = session.get_inputs()
    assert (only_input.name, only_input.type, only_input.shape) == (
        "input_ids",
        "tensor(int64)",
        ["batch_size", 64],
    )
    with torch.no_grad():
        expected = model.text_model(torch.from_numpy(ids))
    for output, value in zip(
        session.get_outputs(), session.run(None, {"input_ids": ids}), strict=True
    ):
        np.testing.assert_allclose(value, expected[output.name], rtol=0, atol=NOISE)


@pytest.mark.full
def test_a_folder_of_both_towers(zoo, checkpoint_folder):
    model = save_towers(checkpoint_folder)
    zoo("build", "--weights", checkpoint_folder, "--out", "made", "--variant", "fp32", "--size", 64)
    folder = zoo.here / "made" / "own"
    zoo("verify", folder)
    processors = {"tokenizer": AutoTokenizer.from_pretrained(checkpoint_folder)}
    processors |= {"image_processor": AutoImageProcessor.from_pretrained(checkpoint_folder)}
    image = photograph().resize((64, 64))
    answers = pipeline("zero-shot-image-classification", model=model, **processors)(
        image, candidate_labels=[*LABELS]
    )
    built = package.load(str(folder))
    actual = built.classify(image, LABELS)
    assert [answer.label for answer in actual] == [answer["label"] for answer in answers]
    scores = [answer["score"] for answer in answers]
    np.testing.assert_allclose([answer.score for answer in actual], scores, rtol=0, atol=NOISE)
    cosines = built.image(image) @ built.text([f"This is a photo of {x}." for x in LABELS]).T
    similarity = built.manifest.similarity
    logits = np.sort(similarity.scale * cosines[0] + similarity.bias)[::-1]
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), scores, rtol=0, atol=NOISE)
    with pytest.raises(BadRequest, match="takes pixel_values and input_ids, not pictures alone"):
        built(image)
    for labels in ("a cat", [], [7]):
        with pytest.raises(BadRequest, match=r"with `labels`, or ask|got labels"):
            built.classify(image, labels)
    with pytest.raises(BadRequest, match="2 pictures"):
        built.classify([image, image], LABELS)


def test_invalid_tokenizers_are_refused(checkpoint_folder):
    save_towers(checkpoint_folder)
    settings = checkpoint_folder / "tokenizer_config.json"
    settings.write_text(json.dumps({"pad_token": "<nothing>"}))
    with pytest.raises(BadFile, match="no word '<nothing>'"):
        read_tokenizer(checkpoint_folder, 64)
    settings.write_text("[]")
    with pytest.raises(BadFile, match=r"tokenizer_config\.json cannot be used"):
        read_tokenizer(checkpoint_folder, 64)
    settings.unlink()
    for content, message in (("{}", "Model missing"), ("{", "no JSON")):
        (checkpoint_folder / "tokenizer.json").write_text(content)
        with pytest.raises(BadFile, match=message):
            read_tokenizer(checkpoint_folder, 64)
    (checkpoint_folder / "tokenizer.json").unlink()
    with pytest.raises(BadFile, match="cannot be read"):
        read_tokenizer(checkpoint_folder, 64)
