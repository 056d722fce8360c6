"""Settings of pictures, drawn: read as transformers' own processors do, or refused."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weights.errors import MappingError
from weights.files import Checkpoint
from zoo.checkpoints.settings.beside import read_settings
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values

SIDE = st.integers(24, 90)
BOTH = st.fixed_dictionaries({"height": SIDE, "width": SIDE})
EDGE = st.fixed_dictionaries({"shortest_edge": SIDE})
NUMBER = st.floats(0.2, 0.8).map(lambda number: round(number, 2))
STATISTIC = NUMBER | st.lists(NUMBER, min_size=3, max_size=3)

OPTIONS = {
    "do_resize": st.booleans(),
    "size": BOTH | EDGE | SIDE,
    "resample": st.integers(0, 5),
    "do_rescale": st.booleans(),
    "rescale_factor": st.sampled_from([1 / 255, 1 / 127.5, 0.01]),
    "do_normalize": st.booleans(),
    "image_mean": STATISTIC,
    "image_std": STATISTIC,
    "do_center_crop": st.booleans(),
    "crop_size": BOTH | SIDE,
    "crop_pct": st.sampled_from([0.875, 0.9, 1.0]),
}
KINDS = ("ViT", "CLIP", "Bit", "Siglip", "ConvNext", "DeiT", "DPT")


@st.composite
def drawn(draw):
    """A processor, and some settings of it; all others are its own."""
    names = draw(st.sets(st.sampled_from(sorted(OPTIONS)), max_size=6))
    return draw(st.sampled_from(KINDS)), {name: draw(OPTIONS[name]) for name in sorted(names)}


def follow(case):
    """One case; whether its settings were followed."""
    kind, told = case
    name = f"{kind}ImageProcessor"
    made = getattr(transformers, f"{name}Pil", getattr(transformers, name))(**told)
    picture = photograph().resize((75, 60))
    try:
        want = made(picture, return_tensors="np")["pixel_values"]
    except (ValueError, TypeError, AttributeError):  # settings that go without each other
        return False
    with TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        try:
            how = read_settings(Checkpoint(Path(folder), "safetensors", (), {}))[1]
        except MappingError as error:
            assert "preprocessor_config.json" in str(error)
            return False
    got = pixel_values([picture], how, how.size)
    # Without a scale, a level of 8 bits is as much as rounding to one may be off, over the least
    # of deviations.
    limit = 1e-4 if told.get("do_rescale", True) else 1 / 0.2
    np.testing.assert_allclose(got, want, rtol=0, atol=limit)
    return True


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
    def each(case):
        followed.append(follow(case))

    each()
    assert sum(followed) > count / 3


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"do_resize": False}, "do_resize"),
        ({"resample": 1}, "resample"),
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 60, "width": 60}}, "crop_size"),
    ],
)
def test_what_is_refused_is_named(told, said, tmp_path):
    transformers.CLIPImageProcessor(**told).save_pretrained(tmp_path)
    with pytest.raises(MappingError, match=said):
        read_settings(Checkpoint(tmp_path, "safetensors", (), {}))
