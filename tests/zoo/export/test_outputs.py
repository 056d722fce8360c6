"""Requested outputs. Attention weights, in JAX and in files, are compared with transformers."""

import equinox as eqx
import numpy as np
import pytest

import converter
import zoo
from tests.references import dinov2, dinov3, vit
from tests.seeded import NETWORKS, model_of, nano, values_of
from tests.synthetic import make_image
from zoo.architectures.builder import abstract, batched, output_choices
from zoo.export.make import convert_model
from zoo.export.request import Signature

ATOL, ONNX_ATOL = 3e-6, 1e-5
"""For attention weights, which sum to one. Measured: 4e-7 in JAX, 7e-7 in files."""

forward = eqx.filter_jit(batched)

ATTENTION = ("attentions", "class_attention")
SMALL = nano(NETWORKS["dinov3_vits16"])


def transformers_attentions(name, config, image):
    """Return the attention weights of every block, `[heads, tokens, tokens]`, by transformers."""
    import torch

    family = {"dinov3_vits16": dinov3, "dinov2_vits14_reg": dinov2}.get(name, vit)
    model = family.transformers(config, values_of(config))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(
            torch.from_numpy(np.array(image)[None]), output_attentions=True
        ).attentions
    return [weights[0].numpy() for weights in attentions]


def assert_attentions(outputs, attentions_by_suffix, prefix, atol):
    """Compare the outputs for one image with the attention weights by the suffix of their names."""
    assert set(outputs) == {
        name + suffix for name in ATTENTION for suffix in attentions_by_suffix
    } | {f"hidden_state{suffix}" for suffix in attentions_by_suffix if suffix}
    for suffix, weights in attentions_by_suffix.items():
        for name, expected in (
            ("attentions", weights),
            ("class_attention", weights[:, 0, prefix:]),
        ):
            np.testing.assert_allclose(
                outputs[name + suffix][0], expected, rtol=0, atol=atol, err_msg=name
            )


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize(
    ("name", "grid"),
    [("dinov3_vits16", (3, 5)), ("dinov2_vits14_reg", (3, 5)), ("vit_tiny_patch16_224", (4, 4))],
)
def test_attentions_are_those_of_transformers(name, grid, opset, tmp_path):
    """The attention weights are those of the last block, or of the requested blocks."""
    config = nano(zoo.info(name).config_for("huggingface"))
    size = tuple(config.stride * side for side in grid)
    image = make_image(1, *size)
    first, last = transformers_attentions(name, config, image)
    for layers, expected in (((), {"": last}), ((1, 2), {"_1": first, "_2": last})):
        jax_outputs = forward(model_of(config), image[None], layers=layers, outputs=ATTENTION)
        assert_attentions(jax_outputs, expected, config.prefix_tokens, ATOL)
        signature = Signature(size, None, layers, outputs=ATTENTION)
        export = convert_model(abstract(config), opset, signature)
        export.save(tmp_path / "model.onnx", values_of(config))
        onnx_outputs = converter.run(tmp_path / "model.onnx", [image[None]])
        assert_attentions(onnx_outputs, expected, config.prefix_tokens, ONNX_ATOL)


@pytest.mark.parametrize(
    ("outputs", "layers", "attention", "softmax"),
    [
        (("pooler_output",), (), 2, 0),
        (("last_hidden_state", *ATTENTION), (), 1, 1),
        (ATTENTION, (), 1, 1),
        (ATTENTION, (1,), 0, 1),
        (("hidden_states",), (1,), 1, 0),
    ],
)
def test_outputs_that_are_not_requested_cost_nothing(outputs, layers, attention, softmax):
    """Every node leads to an output, and attention that is an output is computed once."""
    plain, export = (
        convert_model(abstract(SMALL), 23, Signature((48, 80), None, layers, outputs=names))
        for names in ((), outputs)
    )
    histogram = export.report.histogram
    assert (histogram.get("Attention", 0), histogram.get("Softmax", 0)) == (attention, softmax)
    assert softmax or export.report.nodes <= plain.report.nodes
    read_values = {value for node in export.model.graph for value in node.inputs}
    read_values |= {*export.model.graph.outputs}
    assert all(read_values & {*node.outputs} for node in export.model.graph)


@pytest.mark.parametrize("name", ["dinov3_convnext_tiny", "siglip2_vitb16_224", "vit5_small"])
def test_output_choices(name):
    """They depend on the network: a ConvNeXt has no attention, SigLIP 2 has no class token."""
    names = ["last_hidden_state", "pooler_output"]
    more_names = {"siglip2_vitb16_224": ["attentions"], "vit5_small": ["logits", *ATTENTION]}
    assert output_choices(nano(NETWORKS[name])) == [*names, *more_names.get(name, [])]
