"""Rules, expansions and recognisers from outside; `docs/how-to/extending.md` runs as it stands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import converter
from converter.fuse.user_recognisers import structure_names
from tests.programs.channels import conv

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extending.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with converter.extensions():
        yield


def scaled(name: str) -> Any:
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x, **_: x)
    primitive.def_impl(lambda x, *, factor, **_: x * factor)
    return primitive


@pytest.mark.full
def test_the_page():
    known: dict[str, Any] = {}
    seen = []
    for block in BLOCKS:
        exec(compile(block, "extending.md", "exec"), known)
        seen.append(known["export"].report.histogram)
    assert seen[0] == {"Shrink": 1, "Tanh": 1}
    assert "Shrink" not in seen[1]
    assert seen[2] == {"QuickGelu": 1, "ReduceSum": 1}
    assert seen[3:] == [{"LpNormalization": 1}] * 2
    for fn in (known["network"], known["layer"], known["embed"]):
        converter.to_onnx(fn, [("B", 3, 4)], verify=[X])
        assert converter.bisect(fn, [X]) is None
    assert {"quick_gelu", "l2_normalise"} <= set(structure_names())
    plain = converter.to_onnx(known["embed"], [X], fuse=["quick_gelu"]).report.histogram
    assert "LpNormalization" not in plain
    several = converter.to_onnx(lambda x: x / jnp.sqrt((x * x).sum((1, 2), keepdims=True)), [X])
    assert [str(n.reason) for n in several.report.near_misses] == ["the norm is over several axes"]


def test_a_rule_and_its_end():
    primitive = scaled("tripled")
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


def test_the_newest_rule_and_other_domains():
    primitive = scaled("scaled")
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
def test_a_formula_in_other_spellings_and_layouts():
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
def test_formulas_made_of_others():
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


def test_what_no_formula_can_say():
    with pytest.raises(converter.SpecError, match=r"it has reduce_sum.*give roots="):
        converter.recogniser("mean")(lambda x: x / x.sum(-1, keepdims=True))


def test_rules_from_outside_win():
    """Over the converter's own at every opset, or from one on."""

    def written(opset):
        return set(converter.to_onnx(jax.nn.gelu, [X], opset=opset).report.histogram)

    ours = {opset: written(opset) for opset in (17, 20, 23)}
    for since, wanted in ((None, (17, 20, 23)), (18, (20, 23)), (23, (23,))):
        with converter.extensions():
            given = {} if since is None else {"since": since}
            converter.rule("gelu", ignores=("approximate",), **given)(lambda b, x: b.op("Erf", x))
            for opset, operators in ours.items():
                assert written(opset) == ({"Erf"} if opset in wanted else operators)
    assert {opset: written(opset) for opset in ours} == ours


def test_what_is_registered_is_checked_where_it_is_asked():
    """An operator that is the formula but for NaN passes the samples that are drawn."""
    converter.recogniser("trial_shrink")(lambda x, limit: jnp.where(abs(x) <= limit, 0, x))
    converter.rule("trial_shrink")(lambda b, x, *, limit: b.op("Shrink", x, lambd=limit, bias=0.0))

    def fn(x):
        return jnp.where(abs(x) <= 0.5, 0, x)

    export = converter.to_onnx(fn, [("N",)], verify=True)
    assert export.report.histogram == {"Shrink": 1}
    verdict = converter.check(export, fn, [np.array([1, np.nan, -np.inf], np.float32)])
    assert {(d.got, d.expected) for d in verdict.differences} == {("0.0", "nan")}
