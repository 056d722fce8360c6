"""SigLIP 2 NaFlex compared with transformers.

The tests use three aspect ratios, padding, the image processor, files and answers.
"""

import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import zoo as package
from tests.references import siglip2_naflex as naflex
from tests.references.towers import LABELS
from tests.seeded import model_of
from weights.errors import MappingError
from zoo.architectures.builder import batched
from zoo.architectures.dual.naflex_config import PatchesInput
from zoo.artifacts.read import read_manifest
from zoo.checkpoints.settings.processors import Processor, transformers_processor
from zoo.common.errors import BadRequest
from zoo.images.pictures import to_read_picture

ATOL = 1e-5
"""Limit of a difference. Measured: 2e-6."""

NAMES = ("pixel_values", "pixel_attention_mask", "spatial_shapes")
TEXTS = np.random.default_rng(1).integers(1, naflex.BOTH.words.vocabulary, (3, 64))


def prepared(*pictures, tokens=naflex.TOKENS):
    """Return the arrays that transformers' processor makes of pictures."""
    arrays = naflex.processor(tokens)([*pictures], return_tensors="np")
    return {name: np.asarray(arrays[name]) for name in NAMES}


def to_int32(feeds):
    """Return the inputs with int32 in place of int64, as JAX needs them."""
    return [v.astype(np.int32) if v.dtype == np.int64 else v for v in feeds.values()]


def assert_near(actual, expected, mask=None):
    """Compare the outputs. With a mask, tokens of padding are ignored."""
    for name in actual:
        actual_value, expected_value = np.asarray(actual[name]), np.asarray(expected[name])
        if mask is not None and name == "last_hidden_state":
            actual_value, expected_value = actual_value[mask != 0], expected_value[mask != 0]
        np.testing.assert_allclose(actual_value, expected_value, rtol=0, atol=ATOL, err_msg=name)


@pytest.fixture(scope="module")
def vision():
    return naflex.vision()


@pytest.fixture(scope="module")
def both():
    return naflex.both()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, vision):
    return naflex.save(tmp_path_factory.mktemp("vision") / "own", vision)


@pytest.fixture(scope="module")
def dual_checkpoint(tmp_path_factory, both):
    return naflex.save(tmp_path_factory.mktemp("both") / "own", both)


def test_pictures_of_three_aspect_ratios_agree_with_transformers(vision):
    """Pictures of one batch agree, and so do tokens of padding.

    Those have the position of the first patch.
    """
    feeds = prepared(*naflex.PICTURES)
    mask, shapes = feeds["pixel_attention_mask"], feeds["spatial_shapes"]
    assert len({*map(tuple, shapes.tolist())}) == 3 and not mask.all(axis=1).all()
    actual = jax.jit(batched)(model_of(naflex.VISION), *to_int32(feeds))
    assert_near(actual, naflex.run(vision, feeds))


def test_padding_changes_nothing():
    """More padding with any values does not change tokens and vectors."""
    feeds, model = prepared(naflex.PICTURES[0]), model_of(naflex.VISION)
    longer = prepared(naflex.PICTURES[0]) | {}
    for name in NAMES[:2]:
        widths = ((0, 0), (0, 9), *(((0, 0),) * (feeds[name].ndim - 2)))
        longer[name] = np.pad(feeds[name], widths)
    longer["pixel_values"][longer["pixel_attention_mask"] == 0] = 7.0
    mask = feeds["pixel_attention_mask"]
    actual, expected = (jax.jit(batched)(model, *to_int32(inputs)) for inputs in (longer, feeds))
    actual["last_hidden_state"] = actual["last_hidden_state"][:, : mask.shape[1]]
    assert_near(actual, expected, mask)


def test_both_towers_agree_with_transformers(both):
    feeds = prepared(*naflex.PICTURES) | {"input_ids": TEXTS}
    actual = jax.jit(batched)(model_of(naflex.BOTH), *to_int32(feeds))
    assert_near(actual, naflex.run(both, feeds))


@pytest.mark.parametrize(
    ("tokens", "sides"),
    [
        (256, (480, 640)),
        (256, (1000, 90)),
        *(
            pytest.param(tokens, sides, marks=pytest.mark.full)
            for tokens in (1, 60, 256, 576)
            for sides in ((7, 5), (333, 500), (64, 3000), (2500, 1800))
        ),
    ],
)
def test_patches_are_those_of_the_image_processor(tokens, sides):
    """They agree within the rounding of pixels to 8 bits. Both resize with Pillow here."""
    image = naflex.photograph().resize(sides[::-1])
    expected = prepared(image, tokens=tokens)
    preprocessing = Processor.model_validate(naflex.processor(tokens).to_dict()).preprocessing
    actual = PatchesInput(16).make([to_read_picture(image)], preprocessing, preprocessing.size)
    for name in NAMES[1:]:
        assert actual[name].dtype == expected[name].dtype.newbyteorder("=") or name == NAMES[2]
        np.testing.assert_array_equal(actual[name], expected[name])
    np.testing.assert_allclose(actual["pixel_values"], expected["pixel_values"], atol=1.01 / 127.5)


def test_settings_of_the_processor_are_written_and_read():
    settings = {"max_num_patches": 60, "patch_size": 16, "image_std": [0.5, 0.25, 0.5]}
    preprocessing = Processor.model_validate(naflex.processor().to_dict() | settings).preprocessing
    assert (
        preprocessing.size == (6 * 16, 10 * 16)
        and preprocessing.input_size_for(30, 900) == preprocessing.size
    )
    written = transformers_processor(preprocessing)
    assert written["image_processor_type"] == "Siglip2ImageProcessor"
    assert {name: written[name] for name in settings} == settings
    assert Processor.model_validate(written).preprocessing == preprocessing


def test_patches_of_four_channels_are_refused(checkpoint, tmp_path):
    state = load_file(checkpoint / "model.safetensors")
    (name,) = (name for name in state if name.endswith("patch_embedding.weight"))
    state[name] = np.resize(state[name], (len(state[name]), 4 * 16**2))
    path = tmp_path / "four.safetensors"
    save_file(state, path)
    with pytest.raises(MappingError, match=r"patches have 1024 values, .* 18 x 18 .* has 972"):
        package.from_pretrained(path)


@pytest.mark.parametrize("opset", [18, pytest.param(23, marks=pytest.mark.full)])
def test_a_file_of_a_folder_of_transformers_takes_three_arrays(opset, checkpoint, vision, zoo):
    """The network is recognised, and the file accepts any number of patches."""
    zoo(
        "export",
        "--weights",
        checkpoint,
        "--opset",
        opset,
        "--size",
        "dynamic",
        "--out",
        "naflex.onnx",
    )
    manifest = read_manifest(zoo.here / "naflex.manifest.json")
    assert manifest.family == "siglip2_naflex" and manifest.network == naflex.VISION
    assert manifest.only_variant.passed and manifest.only_variant.opset == opset
    assert [(spec.name, spec.dtype, spec.shape) for spec in manifest.only_variant.inputs] == [
        ("pixel_values", "float32", ("batch_size", "sequence_length", 768)),
        ("pixel_attention_mask", "int32", ("batch_size", "sequence_length")),
        ("spatial_shapes", "int64", ("batch_size", 2)),
    ]
    loaded = package.load(zoo.here / "naflex.onnx")
    names = [output.name for output in loaded.session.get_outputs()]
    for tokens in (naflex.TOKENS, 31):
        feeds = prepared(*naflex.PICTURES, tokens=tokens)
        expected = naflex.run(vision, feeds)
        assert_near(dict(zip(names, loaded.session.run(None, feeds), strict=True)), expected)
    assert_near(loaded([*naflex.PICTURES]), naflex.run(vision, prepared(*naflex.PICTURES)))


@pytest.mark.full
def test_a_file_has_the_processors_number_of_patches(checkpoint, zoo):
    """By default, a file has the number of patches of the checkpoint's processor."""
    zoo("export", "--weights", checkpoint, "--out", "naflex.onnx")
    manifest = read_manifest(zoo.here / "naflex.manifest.json")
    assert manifest.only_variant.inputs[0].shape == ("batch_size", naflex.TOKENS, 768)
    assert "24 patches" in manifest.sizes
    naflex.PICTURES[0].save(zoo.here / "wide.png")
    zoo("run", "naflex.onnx", "wide.png")
    with pytest.raises(BadRequest, match="takes pixel_values and pixel_attention_mask"):
        package.to_onnx(package.from_pretrained(checkpoint), zoo.here / "a.onnx", input="uint8")


def expected_answers(both, built, sentences):
    """Return each picture with transformers' outputs for it and the sentences."""
    ids = built.tokenizer.encode(sentences)["input_ids"]
    return [(p, naflex.run(both, prepared(p) | {"input_ids": ids})) for p in naflex.PICTURES]


def assert_scores(built, both):
    """Compare the scores of labels with transformers', for a picture of each aspect ratio."""
    sentences = [f"This is a photo of {label}." for label in LABELS]
    for picture, expected in expected_answers(both, built, sentences):
        scores = 1 / (1 + np.exp(-expected["logits_per_image"][0]))
        answers = {answer.label: answer.score for answer in built.classify(picture, LABELS)}
        np.testing.assert_allclose([answers[label] for label in LABELS], scores, atol=ATOL)


def assert_vectors(built, both):
    """Compare the vectors of pictures and of texts with transformers'."""
    sentences = [*LABELS]
    for picture, expected in expected_answers(both, built, sentences):
        np.testing.assert_allclose(built.image(picture), expected["image_embeds"], atol=ATOL)
        np.testing.assert_allclose(built.text(sentences), expected["text_embeds"], atol=ATOL)


@pytest.mark.full
def test_zero_shot_questions(dual_checkpoint, both, tmp_path):
    file = tmp_path / "onnx" / "naflex.onnx"
    file.parent.mkdir()
    package.to_onnx(package.from_pretrained(dual_checkpoint), file, opset=23)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((dual_checkpoint / name).read_bytes())
    assert_scores(package.load(file), both)


@pytest.mark.full
def test_a_folder_answers_and_embeds_pictures(dual_checkpoint, both, zoo):
    zoo("build", "--weights", dual_checkpoint, "--out", "made", "--variant", "fp32")
    settings = json.loads((zoo.here / "made/own/preprocessor_config.json").read_text())
    assert settings["max_num_patches"] == naflex.TOKENS
    built = package.load(str(zoo.here / "made/own"))
    assert_scores(built, both)
    assert_vectors(built, both)
    zoo("verify", "made/own")
    (zoo.here / "pictures").mkdir()
    for number, picture in enumerate(naflex.PICTURES):
        picture.save(zoo.here / "pictures" / f"{number}.png")
    zoo("embed", "pictures", "--model", "made/own", "--out", "vectors.lance")
    matches = zoo.json("search", "vectors.lance", "pictures/1.png")
    assert matches[0]["key"].endswith("1.png")
