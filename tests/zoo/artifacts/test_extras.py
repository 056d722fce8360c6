"""What lies beside the networks of a built folder."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import zoo
from weights import bind, random_weights
from zoo.artifacts.build.extras import for_transformers_js, golden, golden_sample
from zoo.checkpoints.load import model_shapes
from zoo.export.describe import describe_shared
from zoo.export.make import Maker
from zoo.export.request import Signature
from zoo.export.verify import reference
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values
from zoo.models.builder import abstract


@pytest.mark.full
@pytest.mark.parametrize("size", [None, (336, 448)])
def test_golden_numbers_are_those_of_the_published_settings(size):
    """Also of DINOv2, which is verified at 518 x 518 pixels but used at 224 x 224."""
    entry = zoo.info("dinov2_vits14_reg")
    entry = replace(entry, config=replace(entry.config, dim=32, depth=1, heads=2, hidden=64))
    model, weights = abstract(entry.config), random_weights(model_shapes(entry.config))
    signature = Signature(size, 1)
    samples = reference(entry, model, weights.arrays, signature)
    maker = Maker(entry, model, weights, signature, lambda: samples)
    how = describe_shared(entry, signature, weights.provenance).preprocessing.settings
    assert how.size == (size or (224, 224))
    got = golden(maker, golden_sample(maker, how))
    np.testing.assert_array_equal(got.fed, pixel_values([photograph()], how, how.size))
    run = jax.vmap(bind(model, weights.arrays))(got.fed)
    assert set(got.outputs) == {"last_hidden_state", "pooler_output"}
    for name, value in got.outputs.items():
        np.testing.assert_allclose(value, getattr(run, name), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("variants", "outside", "told"),
    [
        (("fp32", "int8"), (), {}),
        (("fp32", "fused"), (), {"device_config": {"wasm": {"dtype": "fp32"}}}),
        (("fused", "q4f16", "bf16"), (), {"device_config": {"wasm": {"dtype": "q4f16"}}}),
        (("fused",), (), {}),
        (("int8",), ("int8",), {"use_external_data_format": {"model_quantized.onnx": 1}}),
    ],
)
def test_what_transformers_js_is_told(variants, outside, told):
    assert for_transformers_js(variants, outside) == told
