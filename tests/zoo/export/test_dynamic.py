"""One file for every image size, and hidden states beside the last."""

from functools import partial

import equinox as eqx
import numpy as np
import pytest

import converter
from converter.verify.sessions import run
from tests.synthetic import make_image
from tests.zoo.export.test_dinov3_onnx import ATOL, NO_PLACE_FOR, assert_golden
from tests.zoo.models.test_dinov3 import transformers_model
from zoo.export.make import convert
from zoo.export.request import Signature
from zoo.models.build import batched

OPEN = Signature(size=None, batch=None)
SIZES = ((224, 224), (256, 384), (512, 512), (230, 250))


@pytest.mark.full
@pytest.mark.parametrize("opset", [18, 23])
def test_every_size_from_one_file(opset, vits16, tmp_path):
    """Sizes that are no multiple of the patch are cropped, as the original crops them."""
    made = convert(vits16.model, opset, OPEN)
    made.save(tmp_path / "model.onnx")
    live = converter.session(tmp_path / "model.onnx")
    for size in SIZES:
        assert_golden(live, vits16.expected, size)
    images = np.stack([make_image(seed, 64, 176) for seed in range(3)])
    errors = converter.check(live, eqx.filter_jit(partial(batched, vits16.model)), [images])
    assert max(error.max_abs for error in errors.values()) < ATOL


def test_a_dynamic_graph(vits16):
    """Nothing is computed twice: one table of angles serves all layers, and all is fused."""
    made = convert(vits16.model, 23, OPEN)
    counts = made.report.histogram
    assert not set(counts) & set(NO_PLACE_FOR)
    assert (counts["Sin"], counts["Cos"]) == (1, 1)
    assert {name: count for name, count in made.report.fused.items() if count} == {
        "Attention": 12,
        "RotaryEmbedding": 24,
        "LayerNormalization": 25,
        "Gelu": 12,
    }
    graph = made.model.graph
    values = (*graph.inputs, *graph.outputs)
    shapes = [[getattr(dim, "value", dim) for dim in value.shape] for value in values]
    assert shapes == [
        ["batch_size", 3, "height", "width"],
        ["batch_size", "sequence_length", 384],
        ["batch_size", 384],
    ]


@pytest.mark.full
@pytest.mark.parametrize("opset", [18, 23])
def test_hidden_states_are_those_of_transformers(opset, vits16, tmp_path):
    """After the final norm, as the original's `get_intermediate_layers` gives them."""
    torch = pytest.importorskip("torch")
    layers = (1, 6, 12)
    image = make_image(5, 96, 160)[None]
    theirs = transformers_model(vits16)
    with torch.no_grad():
        states = theirs(torch.from_numpy(image), output_hidden_states=True).hidden_states
        want = {i: theirs.norm(states[i]).numpy() for i in layers}
    for reshape in (False, True):
        signature = Signature((96, 160), None, layers, reshape)
        made = convert(vits16.model, opset, signature)
        # One norm more for each layer that is not the last.
        assert made.report.fused["LayerNormalization"] == 27
        made.save(tmp_path / "model.onnx")
        outputs = run(tmp_path / "model.onnx", [image])
        assert list(outputs) == [
            "last_hidden_state",
            "pooler_output",
            *(f"hidden_state_{i}" for i in layers),
        ]
        for i in layers:
            expected = want[i]
            if reshape:
                expected = expected[:, 5:].transpose(0, 2, 1).reshape(1, 384, 6, 10)
            np.testing.assert_allclose(
                outputs[f"hidden_state_{i}"], expected, rtol=0, atol=ATOL, err_msg=str(i)
            )
