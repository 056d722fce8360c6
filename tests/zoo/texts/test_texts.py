"""Towers for texts, alone and beside one for pictures, as checkpoints, files and folders: SigLIP,
TIPS, CLIP and dino.txt, against transformers and PyTorch."""

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
from weights.mapping import plan, source_shapes
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
"""Measured: 2e-6 of vectors; of logits 3e-6, at temperatures of random weights."""

DUALS = {
    "tipsv2_vitb14_dual": tips,
    CLIP: clip,
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
    both = DUALS[name].both(config, values_of(config))
    if DUALS[name] is clip:
        both = partial(both, interpolate_pos_encoding=True)
    if DUALS[name] is not dinotxt:
        return in_torch(both, **inputs)
    with torch.no_grad():
        return both(*map(torch.from_numpy, inputs.values()))


@pytest.mark.parametrize(
    "name",
    [
        CLIP,
        *(pytest.param(name, marks=pytest.mark.full) for name in DUALS if name != CLIP),
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
        assert all(error.max_abs <= ATOL for error in worst.values()), worst
    for precision in ("fp16", "int8", "q4", "q4f16"):
        write_lower_precision(path, tmp_path / "less.onnx", precision, [*inputs.values()])
        found = differences(tmp_path / "less.onnx", inputs, wanted)
        vectors = {each: error for each, error in found.items() if each.endswith("embeds")}
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
    entry = package.info(name).with_config(config)
    loaded = load_checkpoint(with_leaf_names(open_checkpoint(path)), entry)
    return {leaf: loaded.weights.arrays[leaf] for leaf in loaded.weights.arrays}


def assert_same(found, values):
    assert found.keys() == values.keys()
    for leaf, value in found.items():
        np.testing.assert_array_equal(value, values[leaf], err_msg=leaf)


def under(values, prefix):
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


@pytest.mark.each()
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


def save_openai(folder, values):
    """OpenAI's names, as OpenCLIP writes them."""
    state = file_state(clip_names.ORIGINAL_DUAL, values)
    state = {key: np.array(value, order="C") for key, value in state.items()}
    save_file(state, folder / "open_clip_model.safetensors")


@pytest.fixture
def theirs(zoo):
    """A folder with the heads of both towers, which no tensor tells."""
    heads = {"num_attention_heads": 2}
    (zoo.here / "theirs").mkdir()
    told = json.dumps({"vision_config": heads, "text_config": heads})
    (zoo.here / "theirs" / "config.json").write_text(told)
    return zoo.here / "theirs"


@pytest.mark.parametrize(
    ("name", "save", "kind"),
    [
        ("tipsv2_vitb14_dual", partial(save_pair, stem="tips_v2_oss_b14"), Tipsv2Model),
        (CLIP, save_openai, CLIPModel),
    ],
)
def test_written_for_transformers(name, save, kind, theirs, zoo):
    """Google's pair, and a file by OpenAI's names, become folders of transformers."""
    config = small(name).config
    save(theirs, values_of(config))
    zoo("weights", "convert", *([theirs] if name != CLIP else theirs.glob("*.safetensors")), "hub")
    model, inputs = kind.from_pretrained(zoo.here / "hub").eval(), fed(config)
    asks = {"interpolate_pos_encoding": True} if name == CLIP else {}
    got = in_torch(partial(model, **asks), **inputs)
    wanted = in_pytorch(name, config, inputs)
    torch.testing.assert_close(got.logits_per_image, wanted.logits_per_image)


def test_two_files_of_meta_become_one(theirs, zoo):
    values = values_of(small("dinov3_vitl16_dinotxt_dual").config)
    save_dinotxt(theirs, values)
    zoo("weights", "convert", theirs, "whole.pth")
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
    for name, value in read_tokenizer(tmp_path, 64).encode(texts).items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


@pytest.mark.parametrize(
    ("save", "name"),
    [
        (save_clip, CLIP),
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
    given = {"pixel_values": built.preprocess(image), **built.tokenizer.encode(sentences)}
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


@pytest.fixture
def config():
    return small(CLIP).config


def whole_tree(state, dtype):
    """A module whose parameters have these names, as OpenAI's has."""
    root = torch.nn.Module()
    for key, value in state.items():
        *path, last = key.split(".")
        place = root
        for name in path:
            if name not in dict(place.named_children()):
                place.add_module(name, torch.nn.Module())
            place = getattr(place, name)
        parameter = torch.from_numpy(np.array(value)).to(dtype)
        place.register_parameter(last, torch.nn.Parameter(parameter))
    root.register_buffer("input_resolution", torch.tensor(128))
    return root


def assert_reads(path, name, values):
    both = small(CLIP).config
    part = {"dual": both, "text": both.words}.get(name.rpartition("_")[2], both.vision)
    entry = package.info(name).with_config(part)
    arrays = load_checkpoint(open_checkpoint(path), entry).weights.arrays
    assert {*arrays} == {*values}
    for leaf, value in values.items():
        np.testing.assert_array_equal(arrays[leaf], value, err_msg=leaf)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("form", ["safetensors", "torchscript"])
def test_the_names_of_openai_and_open_clip(form, config, tmp_path):
    """Each tower is read out of a file of both; OpenAI's are in half precision, with their code."""
    values = values_of(config)
    state = file_state(clip_names.ORIGINAL_DUAL, values)
    assert state["visual.proj"].shape == (32, 24) and state["logit_scale"].shape == ()
    path = tmp_path / {"safetensors": "open_clip_model.safetensors"}.get(form, "ViT-B-32.pt")
    if form == "safetensors":
        save_openai(tmp_path, values)
    else:
        torch.jit.save(torch.jit.script(whole_tree(state, torch.float16)), path)
        values = {k: v.astype(np.float16).astype(np.float32) for k, v in values.items()}
    assert_reads(path, CLIP, values)
    for prefix, name in (("vision.", "clip_vitb32"), ("words.", "clip_vitb32_text")):
        tower = {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
        assert_reads(path, name, tower)


def in_torch(model, **given):
    with torch.no_grad():
        return model(**{name: torch.from_numpy(value) for name, value in given.items()})


@pytest.mark.parametrize(
    ("end", "opset"),
    [(2, 23), (17, 18), *(pytest.param(*x, marks=pytest.mark.full) for x in ((95, 18), (17, 23)))],
)
def test_a_tower_whose_words_end_elsewhere(end, opset, config, zoo):
    """Where `eos_token_id` is 2 the greatest number ends a text, else the first of that number."""
    whole = clip.both(config, values_of(config))
    whole.text_model.config.eos_token_id = whole.config.text_config.eos_token_id = end
    model = CLIPTextModelWithProjection(whole.config.text_config).eval()
    model.load_state_dict(whole.state_dict(), strict=False)
    model.save_pretrained(zoo.here / "own")
    zoo("export", "--weights", "own", "--opset", opset, "--out", "w.onnx")
    ids = np.random.default_rng(0).integers(20, 95, (3, 11))
    ids[[0, 1, 2], [10, 4, 1]] = 95 if end == 2 else end
    ids[1, 5:] = 95
    session = onnxruntime.InferenceSession("w.onnx")
    assert session.get_inputs()[0].shape == ["batch_size", "sequence_length"]
    names = ["last_hidden_state", "text_embeds", "pooler_output"]
    found = dict(zip(names, session.run(names, {"input_ids": ids}), strict=True))
    wanted = in_torch(model, input_ids=ids)
    np.testing.assert_array_equal(found["pooler_output"], found["text_embeds"])
    for name in names[:2]:
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.each()
@pytest.mark.parametrize("name", [CLIP, "clip_vitb32_laion2b_dual"])
def test_settings_say_who_trained_a_network(name, tmp_path):
    """OpenAI's and LAION's have the same tensors, and each its own GELU."""
    entry = package.info(name)
    shapes = source_shapes(plan(clip_names.CLIP_DUAL.rules, model_shapes(entry.config)))
    tensors = {
        key: LazyTensor(shape, "float32", lambda shape=shape: np.zeros(shape, np.float32))
        for key, shape in shapes.items()
    }
    checkpoint = Checkpoint(tmp_path, "safetensors", (), tensors)
    settings = Settings.model_validate_json(
        json.dumps(transformers_config(entry.config, (), False))
    )
    assert [each.entry.name for each in rank_networks(checkpoint, settings)] == [name]
    assert len(rank_networks(checkpoint, None)) == 2


NOISE = 1e-5
"""Ten times the largest difference of a vector of length 1 between PyTorch and ONNX Runtime."""


def ids_of(folder):
    """What transformers' tokenizer makes of some sentences."""
    asked = {"padding": "max_length", "max_length": 64, "truncation": True}
    found = AutoTokenizer.from_pretrained(folder)([*SENTENCES, "cat " * 99], **asked)
    return np.array(found["input_ids"])


@pytest.fixture
def own(tmp_path):
    return tmp_path / "own"


def test_texts_become_the_numbers_of_transformers(own):
    save_towers(own)
    tokenize = read_tokenizer(own, 64)
    np.testing.assert_array_equal(tokenize([*SENTENCES, "cat " * 99]), ids_of(own))


@pytest.mark.parametrize("opset", [pytest.param(18, marks=pytest.mark.full), 23])
def test_a_tower_for_texts_as_a_file(opset, zoo, own):
    model = save_towers(own)
    ids = ids_of(own)
    model.text_model.save_pretrained(zoo.here / "texts")
    zoo("export", "--weights", "texts", "--opset", opset, "--out", "w.onnx")
    session = onnxruntime.InferenceSession("w.onnx")
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == (
        "input_ids",
        "tensor(int64)",
        ["batch_size", 64],
    )
    with torch.no_grad():
        wanted = model.text_model(torch.from_numpy(ids))
    for output, value in zip(
        session.get_outputs(), session.run(None, {"input_ids": ids}), strict=True
    ):
        np.testing.assert_allclose(value, wanted[output.name], rtol=0, atol=NOISE)


@pytest.mark.full
def test_a_folder_of_both_towers(zoo, own):
    model = save_towers(own)
    zoo("build", "--weights", own, "--out", "made", "--variant", "fp32", "--size", 64)
    folder = zoo.here / "made" / "own"
    zoo("verify", folder)
    asked = {"tokenizer": AutoTokenizer.from_pretrained(own)}
    asked |= {"image_processor": AutoImageProcessor.from_pretrained(own)}
    image = photograph().resize((64, 64))
    answers = pipeline("zero-shot-image-classification", model=model, **asked)(
        image, candidate_labels=[*LABELS]
    )
    built = package.load(str(folder))
    found = built.classify(image, LABELS)
    assert [each.label for each in found] == [each["label"] for each in answers]
    scores = [each["score"] for each in answers]
    np.testing.assert_allclose([each.score for each in found], scores, rtol=0, atol=NOISE)
    cosines = built.image(image) @ built.text([f"This is a photo of {x}." for x in LABELS]).T
    how = built.manifest.similarity
    logits = np.sort(how.scale * cosines[0] + how.bias)[::-1]
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), scores, rtol=0, atol=NOISE)
    with pytest.raises(BadRequest, match="takes pixel_values and input_ids, not pictures alone"):
        built(image)
    for wrong in ("a cat", [], [7]):
        with pytest.raises(BadRequest, match=r"for texts|got labels"):
            built.classify(image, wrong)
    with pytest.raises(BadRequest, match="2 pictures"):
        built.classify([image, image], LABELS)


def test_what_is_no_tokenizer(own):
    save_towers(own)
    settings = own / "tokenizer_config.json"
    settings.write_text(json.dumps({"pad_token": "<nothing>"}))
    with pytest.raises(BadFile, match="no word '<nothing>'"):
        read_tokenizer(own, 64)
    settings.write_text("[]")
    with pytest.raises(BadFile, match=r"tokenizer_config\.json cannot be used"):
        read_tokenizer(own, 64)
    settings.unlink()
    for content, told in (("{}", "Model missing"), ("{", "no JSON")):
        (own / "tokenizer.json").write_text(content)
        with pytest.raises(BadFile, match=told):
            read_tokenizer(own, 64)
    (own / "tokenizer.json").unlink()
    with pytest.raises(BadFile, match="cannot be read"):
        read_tokenizer(own, 64)
