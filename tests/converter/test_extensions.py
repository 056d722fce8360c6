"""Rules, expansions and recognisers of users, compared with JAX and the built-in rules.

The code of `docs/how-to/extending.md` runs unchanged.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import converter
from converter.fuse.user_recognisers import structure_names
from tests.code_blocks import code_blocks
from tests.programs.channels import conv

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extending.md").read_text()
BLOCKS = code_blocks(PAGE, "python")
X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)


pytestmark = pytest.mark.usefixtures("scope")


def scaling_primitive(name: str) -> Any:
    """Return a new primitive that multiplies its operand by the parameter ``factor``."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x, **_: x)
    primitive.def_impl(lambda x, *, factor, **_: x * factor)
    return primitive


@pytest.mark.full
def test_the_code_of_the_extending_page_runs():
    namespace: dict[str, Any] = {}
    histograms = []
    for block in BLOCKS:
        exec(compile(block, "extending.md", "exec"), namespace)
        histograms.append(namespace["export"].report.histogram)
    assert histograms[0] == {"Shrink": 1, "Tanh": 1}
    assert "Shrink" not in histograms[1]
    assert histograms[2] == {"QuickGelu": 1, "ReduceSum": 1}
    assert histograms[3:] == [{"LpNormalization": 1}] * 2
    for fn in (namespace["network"], namespace["layer"], namespace["embed"]):
        converter.to_onnx(fn, [("B", 3, 4)], verify=[X])
        assert converter.bisect(fn, [X]) is None
    assert {"quick_gelu", "l2_normalise"} <= set(structure_names())
    unfused = converter.to_onnx(namespace["embed"], [X], fuse=["quick_gelu"]).report.histogram
    assert "LpNormalization" not in unfused
    over_two_axes = converter.to_onnx(
        lambda x: x / jnp.sqrt((x * x).sum((1, 2), keepdims=True)), [X]
    )
    assert [str(n.reason) for n in over_two_axes.report.near_misses] == [
        "the norm is over several axes"
    ]


def test_rules_end_with_their_scope():
    primitive = scaling_primitive("tripled")
    fn = lambda x: primitive.bind(x, factor=3.0)  # noqa: E731
    with converter.extensions():
        converter.rule("tripled")(lambda b, x, *, factor: b.op("Mul", x, b.like(factor)))
        assert converter.to_onnx(fn, [X], verify=[X]).report.histogram == {"Mul": 1}
        with pytest.raises(converter.UnsupportedError, match="does not know other"):
            converter.to_onnx(lambda x: primitive.bind(x, factor=3.0, other=1), [X])
    primitive.def_impl(lambda x, **_: np.asarray(x))
    with pytest.raises(
        converter.UnsupportedError, match=r"converter\.rule and converter\.expansion"
    ):
        converter.to_onnx(fn, [X])


def test_rules_depend_on_the_opset_and_may_use_other_domains():
    primitive = scaling_primitive("scaled")
    fn = lambda x: primitive.bind(x, factor=2.0)  # noqa: E731
    converter.rule("scaled")(lambda b, x, *, factor: b.op("Mul", x, b.like(factor)))

    @converter.rule("scaled", since=20)
    def _(b, x, *, factor):
        return b.op("AffineCoordinate", x, factor=factor, domain="com.example", version=2)

    assert converter.to_onnx(fn, [X], opset=19).report.histogram == {"Mul": 1}
    export = converter.to_onnx(fn, [X], opset=20)
    assert export.report.fused == {"AffineCoordinate": 1}
    assert export.model.opset_imports == {"": 20, "com.example": 2}


@pytest.mark.full
def test_recognisers_match_other_spellings_and_layouts():
    converter.recogniser("quick_gelu", since=18)(lambda x, alpha: x * jax.nn.sigmoid(alpha * x))

    @converter.rule("quick_gelu")
    def _(b, x, *, alpha):
        return b.op("QuickGelu", x, alpha=alpha, domain="com.microsoft")

    def network(x):
        x = x.transpose(2, 0, 1)
        return jax.vmap(lambda row: jax.nn.sigmoid(row * 1.5) * row, 1, 1)(x) + x

    assert converter.to_onnx(network, [X], verify=[X]).report.histogram["QuickGelu"] == 1
    assert not converter.to_onnx(network, [X], opset=17).report.fused

    def channels_last(x):
        kernel = jnp.ones((3, 3, 4, 4)) / 9
        for _ in range(2):
            x = conv(x, kernel)
            x = x * jax.nn.sigmoid(1.702 * x)
        return x

    images = np.random.default_rng(0).standard_normal((2, 6, 5, 4)).astype(np.float32)
    export = converter.to_onnx(channels_last, [images], verify=[images])
    assert export.report.histogram == {"Conv": 2, "QuickGelu": 2, "Transpose": 2}


@pytest.mark.full
def test_recognisers_match_formulas_that_contain_others():
    converter.recogniser("gated")(lambda x: x * jax.nn.sigmoid(x))

    @converter.recogniser("gated_twice")
    def _(x):
        gate = x * jax.nn.sigmoid(x)
        return jnp.exp(gate) + gate

    for name, operator in (("gated", "Gated"), ("gated_twice", "GatedTwice")):
        converter.rule(name)(lambda b, x, op=operator: b.op(op, x, domain="com.example"))

    def fn(x):
        y, z = x + 1, x + 2
        gate = jax.nn.sigmoid(y) * y
        return gate + jnp.exp(gate), z * jax.nn.sigmoid(z)

    assert converter.to_onnx(fn, [X]).report.fused == {"Gated": 1, "GatedTwice": 1}


def test_recognisers_with_reductions_need_roots():
    with pytest.raises(converter.SpecError, match=r"it has reduce_sum.*give roots="):
        converter.recogniser("mean")(lambda x: x / x.sum(-1, keepdims=True))


def test_recognisers_have_roots_or_calls():
    with pytest.raises(converter.SpecError, match="'soft' has roots and calls"):
        converter.recogniser("soft", roots=("exp",), calls=("softmax",))


def test_rules_of_users_replace_built_in_rules():
    """A user's rule replaces the built-in one at every opset, or from the opset ``since`` on."""

    def written_operators(opset):
        return set(converter.to_onnx(jax.nn.gelu, [X], opset=opset).report.histogram)

    built_in_operators = {opset: written_operators(opset) for opset in (17, 20, 23)}
    for since, opsets in ((None, (17, 20, 23)), (18, (20, 23)), (23, (23,))):
        with converter.extensions():
            options = {} if since is None else {"since": since}
            converter.rule("gelu", ignores=("approximate",), **options)(lambda b, x: b.op("Erf", x))
            for opset, operators in built_in_operators.items():
                assert written_operators(opset) == ({"Erf"} if opset in opsets else operators)
    assert {opset: written_operators(opset) for opset in built_in_operators} == built_in_operators


def test_operators_of_users_are_checked():
    """An operator that differs from its formula for NaN passes drawn samples, but not a NaN."""
    converter.recogniser("trial_shrink")(lambda x, limit: jnp.where(abs(x) <= limit, 0, x))
    converter.rule("trial_shrink")(lambda b, x, *, limit: b.op("Shrink", x, lambd=limit, bias=0.0))

    def fn(x):
        return jnp.where(abs(x) <= 0.5, 0, x)

    export = converter.to_onnx(fn, [("N",)], verify=True)
    assert export.report.histogram == {"Shrink": 1}
    verdict = converter.check(export, fn, [np.array([1, np.nan, -np.inf], np.float32)])
    assert {(d.got, d.expected) for d in verdict.differences} == {("0.0", "nan")}
