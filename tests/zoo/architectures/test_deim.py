"""DEIMv2 beside transformers' (5.24): in JAX and as files, and its checkpoints."""

from dataclasses import replace

import jax
import onnx
import pytest
import torch
from transformers import Deimv2ForObjectDetection

import zoo
from tests.references import detection
from tests.references.deim import deim
from tests.zoo.architectures.test_detection import assert_near, pictures, run
from weights.errors import MappingError
from weights.progress import Quiet
from zoo.checkpoints.convert import convert_file
from zoo.checkpoints.weights_argument import Given
from zoo.runtime import session


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return deim(tmp_path_factory.mktemp("deim") / "own")


@pytest.mark.parametrize("size", [(64, 96), pytest.param((128, 96), marks=pytest.mark.full)])
def test_is_what_transformers_computes(size, saved):
    images = pictures(2, size)
    assert_near(run(zoo.from_pretrained(None, saved.path), images), saved.outputs(images))


def test_one_that_norms_less_and_tells_no_places(tmp_path):
    """As transformers' script makes them of the smaller networks, which have no registers."""
    own = deim(
        tmp_path / "own",
        backbone_config={"apply_layernorm": False, "num_register_tokens": 0, "key_bias": True},
        eval_size=[64, 96],
        decoder_n_points=2,
    )
    images = pictures(1, own.size)
    assert_near(run(zoo.from_pretrained(None, own.path), images), own.outputs(images))


@pytest.mark.parametrize("opset", [pytest.param(18, marks=pytest.mark.full), 23])
def test_file_beside_transformers(opset, saved, tmp_path):
    """At sizes that the file was not converted for."""
    file = tmp_path / "model.onnx"
    zoo.to_onnx(
        zoo.from_pretrained(None, saved.path), file, opset=opset, size="dynamic", verify=False
    )
    operators = [node.op_type for node in onnx.load(file).graph.node]
    assert operators.count("GridSample") == 9 and operators.count("GatherND") <= 1
    assert "BatchNormalization" not in operators
    live = session(file)
    names = [output.name for output in live.get_outputs()]
    for count, size in ((1, (64, 96)), (3, (128, 96))):
        images = pictures(count, size, seed=size[0])
        got = dict(zip(names, live.run(None, {"pixel_values": images.numpy()}), strict=True))
        assert_near(got, saved.outputs(images), atol=1e-4)


def test_weights_go_back(saved, tmp_path):
    """What only training asks too."""
    place = tmp_path / "folder"
    convert_file(Given(saved.path), place, None, False, Quiet())
    model, images = Deimv2ForObjectDetection.from_pretrained(place), pictures(1, saved.size)
    with torch.no_grad():
        assert_near(detection.named(model(images)), saved.outputs(images))
    there = Deimv2ForObjectDetection.from_pretrained(saved.path).state_dict()
    written = model.state_dict()
    assert all(torch.equal(written[key], value) for key, value in there.items() if value.ndim)


def test_sides_are_multiples_of_two_patches(saved):
    model = zoo.from_pretrained(None, saved.path)
    with pytest.raises(ValueError, match="multiples of 32"):
        jax.eval_shape(model, jax.ShapeDtypeStruct((3, 64, 80), "float32"))


def test_fewer_places_than_queries_are_refused(tmp_path):
    model = zoo.from_pretrained(None, deim(tmp_path / "own", num_queries=100).path)
    with pytest.raises(ValueError, match="84 places for 100 queries"):
        jax.eval_shape(model, jax.ShapeDtypeStruct((3, 64, 64), "float32"))


def test_another_network_is_refused(tmp_path):
    own = deim(tmp_path / "own", decoder_offset_scale=0.25)
    with pytest.raises(MappingError, match=r"decoder_offset_scale is 0\.25"):
        zoo.from_pretrained(None, own.path)


def test_sizes_are_sound():
    config = zoo.info("deimv2_l").config
    assert config.is_sound and config.stride == 32
    assert not replace(config, layers=(6, 9, 13)).is_sound
    assert not replace(config, finder=replace(config.finder, bins=31)).is_sound
