"""`zoo.preprocess`: pictures in every form that people have them in, for a name or a model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo
from zoo.errors import BadRequest, UnknownModel
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values
from zoo.models.build import build

HOW = zoo.info("dinov3_vits16").preprocessing


def test_all_forms_are_the_same(tmp_path):
    image, other = photographs(2)
    image.save(tmp_path / "a.png")
    wanted = pixel_values([image], HOW, HOW.size)
    array = np.asarray(image)
    for form in (image, array, jnp.asarray(array), tmp_path / "a.png", str(tmp_path / "a.png")):
        for given in (form, [form], (form,)):
            got = zoo.preprocess("dinov3_vits16", given)
            assert isinstance(got, jax.Array) and got.dtype == jnp.float32
            np.testing.assert_array_equal(got, wanted)
    both = zoo.preprocess("facebook/dinov3-vits16-pretrain-lvd1689m", [image, np.asarray(other)])
    np.testing.assert_array_equal(both, pixel_values([image, other], HOW, HOW.size))
    np.testing.assert_array_equal(
        zoo.preprocess("dinov3_vits16", np.stack([array] * 2))[1:], wanted
    )


def test_a_model_knows_how_and_another_size():
    model = zoo.create("dinov2_vits14", abstract=True)
    how = zoo.info("dinov2_vits14").preprocessing
    got = zoo.preprocess(model, photographs(2), size=(70, 140))
    assert got.shape == (2, 3, 70, 140)
    np.testing.assert_array_equal(got, pixel_values(photographs(2), how, (70, 140)))


@pytest.mark.parametrize(
    ("images", "told"),
    [
        ([], "no picture"),
        ("nothing.png", "nothing.png is no picture"),
        (np.zeros((4, 4)), r"float64\[4, 4\]"),
        (np.zeros((4, 4, 3)), r"float64\[4, 4, 3\]"),
        (np.zeros((4, 4, 4), np.uint8), r"uint8\[4, 4, 4\]"),
        (np.zeros((0, 4, 3), np.uint8), r"uint8\[0, 4, 3\]"),
        ([None], "object"),
        (3, "int64"),
    ],
)
def test_no_pictures(images, told):
    with pytest.raises(BadRequest, match=told):
        zoo.preprocess("vit_digits", images)


def test_models_that_do_not_know():
    with pytest.raises(UnknownModel):
        zoo.preprocess("nothing", photographs(1))
    by_hand = build(zoo.info("vit_digits").config, key=jax.random.key(0))
    with pytest.raises(BadRequest, match="built by hand"):
        zoo.preprocess(by_hand, photographs(1))
