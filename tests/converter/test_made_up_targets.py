"""Targets that lack one operator: files without it agree with JAX, and targets' versions.

Version specifiers are compared with `packaging`.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.ndimage import map_coordinates

import converter
from converter import targets
from converter.ir import ops
from converter.targets.schemas import operator_name
from converter.targets.target import Quirk, Target, lacks_operators
from converter.targets.versions import parse_versions
from tests.conformance import drawn
from tests.converter.fuse.test_activations import ACTIVATIONS


def batch_norm(offsets, x):
    """Apply a batch norm with constant statistics, as Keras writes it."""
    mean, variance, bias = (offsets[:, None] + c for c in (0.5, 1, 2))
    inverse = jax.lax.rsqrt(variance + 1e-3)
    return x * inverse + (bias - mean * inverse)


X = (2, 5, 12)
FUSED = {
    **ACTIVATIONS,
    "LayerNormalization": jax.vmap(jax.vmap(eqx.nn.LayerNorm(12))),
    "RMSNormalization": jax.vmap(jax.vmap(eqx.nn.RMSNorm(12))),
    "LogSoftmax": jax.nn.log_softmax,
    "Softmax": jax.nn.softmax,
    "Attention": lambda x: jax.nn.dot_product_attention(*[x.reshape(2, 5, 3, 4)] * 3),
    "RotaryEmbedding": lambda x: jax.vmap(eqx.nn.RotaryPositionalEmbedding(12))(x),
    "Resize": lambda x: jax.image.resize(x, (2, 10, 12), "linear"),
    "GridSample": lambda x: map_coordinates(x[0], [x[0, :3, :7], x[1, :3, :7]], order=1),
    "InstanceNormalization": jax.vmap(eqx.nn.GroupNorm(5, 5)),
    "BatchNormalization": eqx.Partial(batch_norm, jnp.arange(5.0)),
    "GRU": lambda x: jax.lax.scan(lambda h, v: (CELL(v, h),) * 2, jnp.zeros(4), x[0])[1],
}
"""By operator: a function of one input of shape X that becomes this fused operator."""

CELL = drawn(lambda key: eqx.nn.GRUCell(12, 4, key=key))


@pytest.fixture
def target_without(monkeypatch):
    """Return a function that registers a target without these operators and returns its name."""

    def register(operators):
        full_target = converter.TARGETS["onnxruntime"]
        bare = replace(
            full_target, name="bare", lacks=(*full_target.lacks, lacks_operators(operators))
        )
        monkeypatch.setitem(targets.TARGETS, "bare", bare)
        return "bare"

    yield register
    targets.find_target.cache_clear()


@pytest.mark.each("name")
@pytest.mark.parametrize("name", FUSED)
def test_missing_operators_are_spelled_out(name, target_without):
    """Without the operator, the file spells the computation out and agrees with JAX."""
    fn = FUSED[name]
    assert converter.to_onnx(fn, [X], opset=24).report.histogram[name]
    result = converter.to_onnx(fn, [X], opset=24, target=target_without(name))
    assert name not in result.report.histogram
    assert converter.check(result, fn).passed


def test_every_fused_operator_is_tested():
    actual = {operator_name(op) for op in ops.defined_ops() if op.structure}
    assert actual - {"LSTM", "RNN"} == FUSED.keys()


def test_a_layer_norm_over_groups_does_not_need_the_operator_of_layer_norms(target_without):
    fn = jax.vmap(eqx.nn.GroupNorm(5, 5))
    result = converter.to_onnx(fn, [X], target=target_without("LayerNormalization"))
    assert result.report.histogram["InstanceNormalization"] == 1


# --------------------------------------------------------------------------------------- versions


VERSIONS = "0.1 0.40 1.9 1.30 1.31 1.31.0 1.31.1 1.31.1.1 1.31.9 1.32 1.32.0 1.32.0.1 1.32.1 1.40"
VERSIONS += " 2 2.0"


@pytest.mark.parametrize("text", ["", ">=1.32", "<1.32", "<=1.32", "> 1.32", "==1.31.1", ">=1, <2"])
def test_version_specifiers_agree_with_packaging(text):
    """Specifiers contain the same versions as in `packaging`, which follows PEP 440."""
    from packaging.specifiers import SpecifierSet

    actual, reference = parse_versions(text), SpecifierSet(text)
    for version in VERSIONS.split():
        assert (version in actual) == (version in reference), version


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("onnxruntime>=", "versions are written like '>=1.31,<2'; received '>='"),
        ("onnxruntime~=1.32", "versions are written like"),
        ("onnxruntime 1.32", "versions are written like"),
        (
            "onnxruntime<1.18",
            "onnxruntime<1.18 has no supported version: the oldest one",
        ),
        ("qnn>=2", "target must be iree, onnxruntime"),
        ("", "target must be iree, onnxruntime"),
    ],
)
def test_invalid_targets_are_rejected(target, message):
    with pytest.raises(converter.SpecError, match=message.replace("<", r"\<")) as raised:
        converter.to_onnx(jnp.sin, [X], target=target)
    assert "\n" not in str(raised.value)


def test_quirks_of_other_versions_are_not_avoided():
    table = Quirk("old", "<1.32", ""), Quirk("new", ">=1.33", ""), Quirk("always", "", "")
    target = Target("bare", {}, quirks=table, versions=parse_versions(">=1.31"))
    for text, old, new in (("", 1, 1), ("<1.32", 1, 0), ("==1.32.0", 0, 0), (">=1.32", 0, 1)):
        names = [quirk.name for quirk in target.restrict_to_versions(text).quirks]
        assert names == ["old"] * old + ["new"] * new + ["always"]


def test_a_newer_runtime_gets_smaller_files():
    def fn(x, y):
        return x.max(0), jnp.sign(x), jax.lax.rem(x, y)

    x = np.array([[2**40, -3, 5], [7, 2**33, -(2**40)]])
    with jax.enable_x64(True):
        nodes = [
            converter.to_onnx(fn, [x, x + 1], target=target, verify=[x, x + 1]).report.nodes
            for target in ("onnxruntime", "onnxruntime<1.32", "onnxruntime>=1.32")
        ]
    assert nodes[0] == nodes[1] > nodes[2]
