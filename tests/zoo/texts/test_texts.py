"""Files that take texts, and folders that compare them with pictures, against transformers."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from transformers import AutoImageProcessor, AutoTokenizer, pipeline

import zoo as package
from tests.references.towers import LABELS, SENTENCES, save_towers
from zoo.errors import BadFile, BadRequest
from zoo.images.photograph import photograph
from zoo.texts.tokenizer import read_tokenizer

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
    with pytest.raises(BadRequest, match="takes more than pictures"):
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
