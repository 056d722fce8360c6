"""Drawn settings of preprocessing are followed as transformers' processors do, or refused."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import transformers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from transformers import pipeline

from tests.references.classifiers import CLASSES, SIZED, seeded
from weights.errors import MappingError
from weights.files import Checkpoint
from zoo.architectures.dual.naflex_config import PatchesInput
from zoo.checkpoints.settings.processors import PROCESSOR_KINDS
from zoo.checkpoints.settings.settings_files import read_settings
from zoo.images.photograph import photograph
from zoo.images.pictures import to_read_picture
from zoo.images.pixel_values import pixel_values

PILLOW = "ImageProcessorPil"
PROCESSORS = {
    kind.name: getattr(transformers, f"{kind.name}{PILLOW}")
    for kind in PROCESSOR_KINDS
    if hasattr(transformers, f"{kind.name}{PILLOW}")
}
"""Image processors of transformers that need no torchvision, by their kinds."""

SIDE = st.integers(24, 90)
BOTH = st.fixed_dictionaries({"height": SIDE, "width": SIDE})
EDGE_TWICE = SIDE.map(lambda side: {"shortest_edge": side, "longest_edge": side})
EDGE = st.fixed_dictionaries({"shortest_edge": SIDE})
MULTIPLE = st.sampled_from([1, 8, 14])
NUMBER = st.floats(0.2, 0.8).map(lambda number: round(number, 2))
STATISTIC = NUMBER | st.lists(NUMBER, min_size=3, max_size=3)

OPTIONS = {
    "do_resize": st.sampled_from([True, True, None, False]),
    "size": BOTH | EDGE | SIDE | EDGE_TWICE | st.tuples(SIDE, SIDE).map(list),
    "default_to_square": st.booleans(),
    "resample": st.sampled_from([2, 2, 3, 3, 0, 1, 4, 5]),
    "do_rescale": st.booleans(),
    "rescale_factor": st.sampled_from([1 / 255, 1 / 127.5, 0.01]),
    "do_normalize": st.booleans(),
    "image_mean": STATISTIC,
    "image_std": STATISTIC,
    "do_center_crop": st.booleans() | st.none(),
    "crop_size": BOTH | SIDE,
    "crop_pct": st.sampled_from([0.875, 0.9, 1.0]),
    "do_pad": st.booleans(),
    "pad_size": BOTH | st.just({"height": 90, "width": 90}),
    "size_divisor": st.sampled_from([16, 30]),
    "keep_aspect_ratio": st.booleans(),
    "ensure_multiple_of": MULTIPLE,
    "patch_size": st.sampled_from([8, 14, 16]),
    "max_num_patches": st.integers(3, 70),
    "do_split_image": st.booleans(),
    "do_convert_rgb": st.booleans(),
}
"""Values to draw for each setting of a processor."""


@st.composite
def drawn(draw):
    """Draw a processor and some of its settings. The others are the defaults.

    The last value is the ending of the class name that the file states. With an empty ending, the
    file has all settings, as the processor saved them.
    """
    kind = draw(st.sampled_from([*PROCESSORS]))
    names = draw(st.sets(st.sampled_from(sorted(OPTIONS)), max_size=6) | st.just({"size"}))
    values = {name: draw(OPTIONS[name]) for name in sorted(names)}
    class_ending = draw(
        st.sampled_from(["ImageProcessor", "ImageProcessorFast", "FeatureExtractor", ""])
    )
    return kind, values, class_ending


def follow(case):
    """Compare the zoo's arrays for a case. Return whether the zoo followed its settings."""
    kind, values, class_ending = case
    picture = photograph().resize((75, 60))
    try:
        processor = PROCESSORS[kind](**values)
        expected = {
            name: np.asarray(array)
            for name, array in processor(picture, return_tensors="np").items()
        }
    except (ValueError, TypeError, AttributeError):  # transformers refuses the combination
        return False
    with TemporaryDirectory() as folder:
        processor.save_pretrained(folder)
        if class_ending:
            path = Path(folder) / "preprocessor_config.json"
            name = "feature_extractor_type" if class_ending[0] == "F" else "image_processor_type"
            path.write_text(json.dumps({name: kind + class_ending, **values}))
        try:
            preprocessing = read_settings(Checkpoint(Path(folder), "safetensors", (), {})).pictures
        except MappingError as error:
            assert "preprocessor_config.json" in str(error)
            return False
    actual = arrays_of(picture, preprocessing)
    # Without rescaling, rounding to 8 bits may differ by one level, divided by the smallest
    # standard deviation.
    limit = 1e-4 if values.get("do_rescale", True) else 1 / 0.2
    for name, array in actual.items():
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=limit, err_msg=name)
    return True


def arrays_of(picture, preprocessing):
    """Return the zoo's arrays for a picture: pixels, or SigLIP 2's patches, mask and grid."""
    if preprocessing.padded and preprocessing.multiple is not None:
        return PatchesInput(preprocessing.multiple).make(
            [to_read_picture(picture)], preprocessing, preprocessing.size
        )
    size = preprocessing.input_size_for(picture.height, picture.width)
    return {"pixel_values": pixel_values([picture], preprocessing, size)}


@pytest.mark.parametrize(
    "count", [pytest.param(40, id="some"), pytest.param(1500, id="many", marks=pytest.mark.full)]
)
def test_drawn_settings_are_followed_or_refused(count):
    followed = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn())
    @example(("ConvNext", {"size": {"shortest_edge": 384}}, ""))  # from 384 there is no crop
    def check(case):
        followed.append(follow(case))

    check()
    assert sum(followed) > count / 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"do_pad": True, "pad_size": {"height": 300, "width": 300}}, "do_pad enlarges"),
        ({"do_resize": False}, "do_resize"),
        ({"resample": 1}, "resample"),
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 60, "width": 60}}, "crop_size"),
    ],
)
def test_a_refusal_names_the_setting(values, message, tmp_path):
    transformers.CLIPImageProcessor(**values).save_pretrained(tmp_path)
    with pytest.raises(MappingError, match=message):
        read_settings(Checkpoint(tmp_path, "safetensors", (), {}))


PICTURES = {
    "ViT": {"size": {"height": 40, "width": 56}},
    "DeiT": {"size": [60, 70], "crop_size": {"height": 40, "width": 48}, "image_std": 0.3},
    "CLIP": {"size": 50, "crop_size": {"height": 40, "width": 48}, "do_rescale": False},
    "ConvNext": {"size": {"shortest_edge": 56}, "crop_pct": 0.9, "do_normalize": False},
}
"""Settings of preprocessing, by processor."""


@pytest.mark.each("problem", "classes", "kind")
@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize(
    ("problem", "classes"),
    [
        *((None, 3), (None, 1), ("single_label_classification", 3), ("regression", 1)),
        *(("multi_label_classification", 3), ("multi_label_classification", 1)),
        ("regression", 3),
    ],
)
def test_answers_are_those_of_the_pipeline(problem, classes, kind, zoo):
    """`zoo run` on a folder gives the names and scores of transformers' own pipeline."""
    labels = {"id2label": dict(enumerate(CLASSES[:classes])), "problem_type": problem}
    name = "Dinov2ForImageClassification"
    network = seeded(name, SIZED | labels)
    network.save_pretrained("own")
    processor = PROCESSORS[kind](**PICTURES[kind])
    processor.save_pretrained("own")
    picture = photograph().resize((75, 60))
    theirs = pipeline("image-classification", model=network, image_processor=processor)(picture)
    picture.save("small.png")
    (ours,) = zoo.json("run", "own", "small.png")
    assert [row["label"] for row in ours["answers"]] == [row["label"] for row in theirs]
    actual, expected = ([row["score"] for row in rows] for rows in (ours["answers"], theirs))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
