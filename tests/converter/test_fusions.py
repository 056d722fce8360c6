"""The option `fuse` chooses which recognisers run, and the report counts fused operators.

The report also lists what a newer opset would fuse.
"""

import jax
import jax.numpy as jnp
import pytest

import converter
from converter.fuse.user_recognisers import structure_names
from converter.ir import ops
from converter.targets.schemas import operator_name
from tests.converter.test_made_up_targets import FUSED, X

THREE = ("Attention", "RotaryEmbedding", "RMSNormalization")
attention, rotary, rms_norm = (FUSED[operator] for operator in THREE)
ALL = {op.structure: operator_name(op) for op in ops.defined_ops() if operator_name(op) in FUSED}
STRUCTURES = {name: operator for name, operator in ALL.items() if name}
COMMON = ("Softmax", "Clip")
"""Operators that single operations of JAX are written as too, or that are parts of others."""


@pytest.mark.parametrize("name", STRUCTURES)
def test_recognisers_are_chosen_by_name(name):
    operator = STRUCTURES[name]
    fn = jax.nn.gelu if operator == "Gelu" else FUSED[operator]
    other_names = [
        other for other in structure_names() if other not in (name, "attention", "group_norm")
    ]
    for fuse, is_expected in (([name], True), (other_names, False), (False, False)):
        export = converter.to_onnx(fn, [X], fuse=fuse, opset=24)
        assert (operator in export.report.histogram) == is_expected, export.graph
        assert (operator in export.report.fused) == (is_expected and operator not in COMMON)


def test_recognisers_run_with_those_that_they_need():
    def both(x):
        return attention(jax.nn.gelu(x)), rotary(x)

    attention_only = converter.to_onnx(both, [X], fuse=["attention"]).report
    assert attention_only.fused == {"Attention": 1}
    unfused = converter.to_onnx(both, [X], opset=18, fuse=False).report
    assert not unfused.fused
    assert not unfused.newer


def test_unknown_names_of_recognisers_are_answered_with_all_names():
    with pytest.raises(converter.SpecError, match=r"a list of attention, rotary.*'attentoin'"):
        converter.to_onnx(attention, [X], fuse=["attentoin"])
    with pytest.raises(converter.SpecError, match="received 'attention'"):
        converter.to_onnx(attention, [X], fuse="attention")


def test_the_report_lists_fusions_of_newer_opsets():
    def network(x):
        products = jax.nn.mish(x) * jax.nn.silu(x)
        return attention(rotary(rms_norm(x))), jax.nn.gelu(x), products

    report = converter.to_onnx(network, [X], opset=17).report
    assert report.newer == {
        18: {"Mish": 1},
        20: {"Gelu": 1},
        23: {"Attention": 1, "RMSNormalization": 1, "RotaryEmbedding": 1},
        24: {"Swish": 1},
    }
    for opset, operators in report.newer.items():
        newer_report = converter.to_onnx(network, [X], opset=opset).report
        assert {op: newer_report.fused[op] for op in operators} == operators
    assert "would be fused at opset 18: 1 Mish" in str(report)
    assert not newer_report.newer
    assert str(converter.to_onnx(jnp.tanh, [X]).report) == "1 node"
    several = converter.to_onnx(lambda x: jax.nn.gelu(x) + jax.nn.mish(x), [X]).report
    assert str(several).splitlines()[0] == "3 nodes: 1 Gelu, 1 Mish"


def test_the_report_counts_transposes_in_front_of_norms():
    """A norm of channels between convolutions needs a Transpose; one of the last axis does not."""

    def block(x, kernel, scale):
        x = jax.lax.conv(x, kernel, (1, 1), "SAME")
        normed = layer_norm(jnp.moveaxis(x, 1, -1)) * scale
        return jax.lax.conv(jnp.moveaxis(normed, -1, 1), kernel, (1, 1), "SAME")

    specs = [(2, 3, 5, 7), (3, 3, 3, 3), (3,)]
    report = converter.to_onnx(block, specs).report
    assert report.norm_transposes == 1
    assert "in front of norms of the last axes: 1 Transpose" in str(report)
    assert converter.to_onnx(layer_norm, [(2, 5, 7)]).report.norm_transposes == 0


def layer_norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
