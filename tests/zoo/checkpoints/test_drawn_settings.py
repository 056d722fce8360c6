"""Settings of pictures, drawn: read as transformers' own processors do, or refused."""

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
from zoo.images.pictures import reduced_picture
from zoo.images.pixel_values import pixel_values

PILLOW = "ImageProcessorPil"
PROCESSORS = {
    kind.name: getattr(transformers, f"{kind.name}{PILLOW}")
    for kind in PROCESSOR_KINDS
    if hasattr(transformers, f"{kind.name}{PILLOW}")
}
"""Those that need no torchvision."""

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


@st.composite
def drawn(draw):
    """A processor, and some settings of it; all others are its own, in the file or not."""
    kind = draw(st.sampled_from([*PROCESSORS]))
    names = draw(st.sets(st.sampled_from(sorted(OPTIONS)), max_size=6) | st.just({"size"}))
    told = {name: draw(OPTIONS[name]) for name in sorted(names)}
    end = draw(st.sampled_from(["ImageProcessor", "ImageProcessorFast", "FeatureExtractor", ""]))
    return kind, told, end


def follow(case):
    """One case; whether its settings were followed."""
    kind, told, end = case
    picture = photograph().resize((75, 60))
    try:
        made = PROCESSORS[kind](**told)
        want = {
            name: np.asarray(array) for name, array in made(picture, return_tensors="np").items()
        }
    except (ValueError, TypeError, AttributeError):  # settings that go without each other
        return False
    with TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        if end:
            path = Path(folder) / "preprocessor_config.json"
            name = "feature_extractor_type" if end[0] == "F" else "image_processor_type"
            path.write_text(json.dumps({name: kind + end, **told}))
        try:
            how = read_settings(Checkpoint(Path(folder), "safetensors", (), {})).pictures
        except MappingError as error:
            assert "preprocessor_config.json" in str(error)
            return False
    got = arrays_of(picture, how)
    # Without a scale, a level of 8 bits is as much as rounding to one may be off, over the least
    # of deviations.
    limit = 1e-4 if told.get("do_rescale", True) else 1 / 0.2
    for name, array in got.items():
        np.testing.assert_allclose(array, want[name], rtol=0, atol=limit, err_msg=name)
    return True


def arrays_of(picture, how):
    """Return the zoo's arrays for a picture: pixels, or SigLIP 2's patches, mask and grid."""
    if how.padded and how.multiple is not None:
        return PatchesInput(how.multiple).make([reduced_picture(picture)], how, how.size)
    size = how.input_size_for(picture.height, picture.width)
    return {"pixel_values": pixel_values([picture], how, size)}


@pytest.mark.parametrize(
    "count", [pytest.param(40, id="some"), pytest.param(1500, id="many", marks=pytest.mark.full)]
)
def test_what_is_drawn_is_followed_or_refused(count):
    followed = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn())
    @example(("ConvNext", {"size": {"shortest_edge": 384}}, ""))  # which are not cropped
    def each(case):
        followed.append(follow(case))

    each()
    assert sum(followed) > count / 3


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"do_pad": True, "pad_size": {"height": 300, "width": 300}}, "do_pad enlarges"),
        ({"do_resize": False}, "do_resize"),
        ({"resample": 1}, "resample"),
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 60, "width": 60}}, "crop_size"),
    ],
)
def test_what_is_refused_is_named(told, said, tmp_path):
    transformers.CLIPImageProcessor(**told).save_pretrained(tmp_path)
    with pytest.raises(MappingError, match=said):
        read_settings(Checkpoint(tmp_path, "safetensors", (), {}))


PICTURES = {
    "ViT": {"size": {"height": 40, "width": 56}},
    "DeiT": {"size": [60, 70], "crop_size": {"height": 40, "width": 48}, "image_std": 0.3},
    "CLIP": {"size": 50, "crop_size": {"height": 40, "width": 48}, "do_rescale": False},
    "ConvNext": {"size": {"shortest_edge": 56}, "crop_pct": 0.9, "do_normalize": False},
}


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
    """From a picture to named scores, by transformers' own pipeline; `zoo run` takes the folder."""
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
    assert [each["label"] for each in ours["answers"]] == [each["label"] for each in theirs]
    got, want = ([each["score"] for each in found] for found in (ours["answers"], theirs))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
