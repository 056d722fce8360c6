"""Outputs that are asked for by name: what tokens attend to, beside transformers, in JAX and in
files; and what is computed for them."""

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
"""Of shares of one. Measured: 4e-7 in JAX, 7e-7 in files."""

forward = eqx.filter_jit(batched)

ATTENTION = ("attentions", "class_attention")
SMALL = nano(NETWORKS["dinov3_vits16"])


def by_transformers(name, config, image):
    """`[heads, tokens, tokens]` of every block."""
    import torch

    family = {"dinov3_vits16": dinov3, "dinov2_vits14_reg": dinov2}.get(name, vit)
    model = family.transformers(config, values_of(config))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(torch.from_numpy(np.array(image)[None]), output_attentions=True).attentions
    return [weights[0].numpy() for weights in found]


def assert_attentions(got, wanted, prefix, atol):
    """Of the blocks by the names of a file; there is one image."""
    assert set(got) == {name + end for name in ATTENTION for end in wanted} | {
        f"hidden_state{end}" for end in wanted if end
    }
    for end, weights in wanted.items():
        for name, each in (("attentions", weights), ("class_attention", weights[:, 0, prefix:])):
            np.testing.assert_allclose(got[name + end][0], each, rtol=0, atol=atol, err_msg=name)


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize(
    ("name", "grid"),
    [("dinov3_vits16", (3, 5)), ("dinov2_vits14_reg", (3, 5)), ("vit_tiny_patch16_224", (4, 4))],
)
def test_attentions_are_those_of_transformers(name, grid, opset, tmp_path):
    """Of the last block, and of the blocks that are asked for."""
    config = nano(zoo.info(name).config_for("huggingface"))
    size = tuple(config.stride * side for side in grid)
    image = make_image(1, *size)
    one, two = by_transformers(name, config, image)
    for layers, wanted in (((), {"": two}), ((1, 2), {"_1": one, "_2": two})):
        in_jax = forward(model_of(config), image[None], layers=layers, outputs=ATTENTION)
        assert_attentions(in_jax, wanted, config.prefix_tokens, ATOL)
        signature = Signature(size, None, layers, outputs=ATTENTION)
        export = convert_model(abstract(config), opset, signature)
        export.save(tmp_path / "model.onnx", values_of(config))
        in_file = converter.run(tmp_path / "model.onnx", [image[None]])
        assert_attentions(in_file, wanted, config.prefix_tokens, ONNX_ATOL)


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
def test_what_is_not_asked_for_costs_nothing(outputs, layers, attention, softmax):
    """Every node leads to an output, and attention that is one is computed once."""
    plain, export = (
        convert_model(abstract(SMALL), 23, Signature((48, 80), None, layers, outputs=names))
        for names in ((), outputs)
    )
    found = export.report.histogram
    assert (found.get("Attention", 0), found.get("Softmax", 0)) == (attention, softmax)
    assert softmax or export.report.nodes <= plain.report.nodes
    read = {value for node in export.model.graph for value in node.inputs}
    read |= {*export.model.graph.outputs}
    assert all(read & {*node.outputs} for node in export.model.graph)


@pytest.mark.parametrize("name", ["dinov3_convnext_tiny", "siglip2_vitb16_224", "vit5_small"])
def test_outputs_that_there_are(name):
    """Told by the network itself: a ConvNeXt has no attention, SigLIP 2 no class token."""
    wanted = ["last_hidden_state", "pooler_output"]
    more = {"siglip2_vitb16_224": ["attentions"], "vit5_small": ["logits", *ATTENTION]}
    assert output_choices(nano(NETWORKS[name])) == [*wanted, *more.get(name, [])]
