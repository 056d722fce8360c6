"""CLIP's files by whoever wrote them, against transformers."""

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.numpy import save_file
from transformers import CLIPModel, CLIPTextModelWithProjection, CLIPVisionModelWithProjection

import zoo as package
from tests.formats import small
from tests.references import clip
from tests.references.running import file_state
from tests.seeded import values_of
from tests.synthetic import make_image
from weights import LazyTensor, open_checkpoint
from weights.files import Checkpoint
from weights.mapping import plan, source_shapes
from weights.namings import clip_names
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.load import load_checkpoint, model_shapes
from zoo.checkpoints.recognised import likely
from zoo.checkpoints.settings.huggingface import transformers_config

NAME = "clip_vitb32_dual"
ATOL = 1e-5
"""Measured: 1e-6."""


@pytest.fixture
def config():
    return small(NAME).config


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
    both = small(NAME).config
    part = {"dual": both, "text": both.words}.get(name.rpartition("_")[2], both.vision)
    entry = replace(package.info(name), config=part)
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
        save_file({key: np.array(value, order="C") for key, value in state.items()}, path)
    else:
        torch.jit.save(torch.jit.script(whole_tree(state, torch.float16)), path)
        values = {k: v.astype(np.float16).astype(np.float32) for k, v in values.items()}
    assert_reads(path, NAME, values)
    for prefix, name in (("vision.", "clip_vitb32"), ("words.", "clip_vitb32_text")):
        tower = {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
        assert_reads(path, name, tower)


def in_torch(model, **given):
    with torch.no_grad():
        return model(**{name: torch.from_numpy(value) for name, value in given.items()})


@pytest.mark.parametrize(("end", "opset"), [(2, 23), (95, 18), (17, 23), (17, 18)])
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
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=ATOL, err_msg=name)


@pytest.mark.parametrize("opset", [pytest.param(18, marks=pytest.mark.full), 23])
def test_a_tower_for_pictures(opset, config, zoo):
    whole = clip.both(config, values_of(config))
    model = CLIPVisionModelWithProjection(whole.config.vision_config).eval()
    model.load_state_dict(whole.state_dict(), strict=False)
    model.save_pretrained(zoo.here / "own")
    zoo("export", "--weights", "own", "--opset", opset, "--size", "dynamic", "--out", "w.onnx")
    pixels = np.stack([make_image(seed, 160, 96) for seed in (1, 2)])
    with torch.no_grad():
        wanted = model(torch.from_numpy(pixels), interpolate_pos_encoding=True)
    names = ["last_hidden_state", "image_embeds"]
    found = onnxruntime.InferenceSession("w.onnx").run(names, {"pixel_values": pixels})
    for name, value in zip(names, found, strict=True):
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=ATOL, err_msg=name)


@pytest.mark.parametrize("name", [NAME, "clip_vitb32_laion2b_dual"])
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
    assert [each.entry.name for each in likely(checkpoint, settings)] == [name]
    assert len(likely(checkpoint, None)) == 2


def test_written_for_transformers(config, zoo):
    """OpenAI's names become a folder of transformers."""
    save_file(
        {
            key: np.array(value, order="C")
            for key, value in file_state(clip_names.ORIGINAL_DUAL, values_of(config)).items()
        },
        zoo.here / "model.safetensors",
    )
    heads = {"num_attention_heads": 2}
    told = {"vision_config": heads, "text_config": heads}
    (zoo.here / "config.json").write_text(json.dumps(told))
    zoo("weights", "convert", "model.safetensors", "hub")
    ids = np.random.default_rng(0).integers(1, 95, (3, 77))
    ids[:, -1] = 95
    given = {"input_ids": ids, "pixel_values": np.stack([make_image(1, 128, 128)])}
    wanted = in_torch(clip.both(config, values_of(config)), **given)
    got = in_torch(CLIPModel.from_pretrained(zoo.here / "hub").eval(), **given)
    torch.testing.assert_close(got.logits_per_image, wanted.logits_per_image)
