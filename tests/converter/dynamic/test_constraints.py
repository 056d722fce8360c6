"""Constraints on symbolic dimensions: conversion, metadata, drawn samples, checks, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import converter
from converter.ir import named_sizes
from converter.verify.samples import draw_basic_samples


def sum_pairs(x):
    """Return sums and top values that need an even length of at least four."""
    pairs = x.reshape(-1, 2).sum(1)
    return pairs + x[::2] + (1.0 if x.shape[0] >= 4 else 0.0), lax.top_k(x, 2)


def test_all_functions_obey_constraints():
    x = np.arange(6, dtype=np.float32)
    options = {"specs": [("N",)], "constraints": ["N >= 4", "mod(N, 2) == 0"]}
    assert converter.explain(sum_pairs, **options).is_convertible
    assert not converter.explain(sum_pairs, [("N",)]).is_convertible
    assert converter.bisect(sum_pairs, [x], **options) is None
    with pytest.raises(converter.CheckError, match=r"do not obey the constraint 'N >= 4'"):
        converter.bisect(sum_pairs, [x[:2]], **options)
    exported = converter.to_onnx(sum_pairs, **options)
    assert exported.model.metadata_props["dimension_constraints"] == "N == 2*N_2; N >= 4"
    assert {arrays[0].size for _, arrays in draw_basic_samples(exported.graph)} == {4, 6, 18}
    assert converter.check(exported, sum_pairs).passed
    assert converter.check(exported, sum_pairs, [x]).passed
    with pytest.raises(converter.CheckError, match=r"do not obey the constraint 'N >= 4'"):
        converter.check(exported, sum_pairs, [x[:2]])


def test_users_symbolic_scope_is_kept():
    scope = export.SymbolicScope(["h >= 2"])
    (h,) = export.symbolic_shape("h", scope=scope)
    spec = jax.ShapeDtypeStruct((h,), np.float32)

    def top(x, y):
        return lax.top_k(x, 2)[0] * y[-1]

    exported = converter.to_onnx(top, [spec, ("w",)])
    assert exported.graph.constraints == ("h >= 2",)
    assert converter.check(exported, top).passed
    with pytest.raises(converter.SpecError, match="have a scope already"):
        converter.to_onnx(top, [spec], constraints=["h >= 3"])
    other = jax.ShapeDtypeStruct(export.symbolic_shape("w"), np.float32)
    with pytest.raises(converter.SpecError, match="of several scopes"):
        converter.to_onnx(top, [spec, other])


INVALID_CONSTRAINTS = {
    "B > 2": "must contain one of",
    "(B >= 2": "write it as 'B >= 2'",
    "b >= 2": "uses the name 'b', which is in no input's shape",
    "2*B + 1 == 5": "Invalid equality",
}


def test_invalid_constraint_is_reported_in_one_sentence():
    for text, message in INVALID_CONSTRAINTS.items():
        with pytest.raises(converter.SpecError, match=message) as caught:
            converter.to_onnx(jnp.sin, [("B",)], constraints=["B >= 1", text])
        assert repr(text) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(converter.SpecError, match=r"for one write \['B >= 2'\]"):
        converter.to_onnx(jnp.sin, [("B",)], constraints="B >= 2")
    exported = converter.to_onnx(jnp.sin, [("B",)], constraints=["B >= 5", "B <= 2"])
    with pytest.raises(converter.CheckError, match="no sizes"):
        converter.check(exported, jnp.sin)


NEAREST = [  # requested sizes, constraints, nearest sizes or None
    ({"h": 3, "w": 4}, ["h == w"], {"h": 3, "w": 3}),
    ({"h": 3}, ["mod(h, 16) == 0"], {"h": 16}),
    ({"h": 1}, ["h >= 300"], {"h": 300}),
    ({"h": 9, "w": 9}, ["h <= 4", "w >= 2*h"], {"h": 4, "w": 9}),
    ({"k": 3}, ["h == 16*k", "h >= 40"], {"k": 3, "h": 48}),
    ({"h": 2}, ["h >= 5", "h <= 4"], None),
]


def test_nearest_sizes_obey_the_constraints():
    for requested, constraints, nearest in NEAREST:
        assert named_sizes.find_allowed_sizes(requested, constraints) == nearest


BOUNDED = {
    "sum": jnp.add,
    "dot": jnp.dot,
    "pad to 8": lambda x, y: jnp.pad(x, (0, 8 - x.shape[0])),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bound_and_equality_together_match_jax(name):
    exported = converter.to_onnx(BOUNDED[name], [("h",), ("w",)], constraints=["h == w", "w <= 8"])
    assert converter.check(exported, BOUNDED[name]).passed


def test_equality_makes_dimensions_share_a_name():
    exported = converter.to_onnx(jnp.add, [("h",), ("w",)], constraints=["h == w"])
    first, second = exported.model.graph.inputs
    assert str(first.shape) == str(second.shape)


def test_sizes_that_a_function_does_not_accept_are_named():
    """JAX accepts the reshape of a named dimension, and refuses it for other sizes than multiples
    of 4."""

    def groups(x):
        return x.reshape(x.shape[0] // 4, 4, 6)

    message = r"on normal inputs of \[3, 6\]: cannot reshape .*; if only some sizes are valid, say"
    with pytest.raises(converter.CheckError, match=message):
        converter.to_onnx(groups, [("B", 6)], verify=True)
    export = converter.to_onnx(groups, [("B", 6)], constraints=["mod(B, 4) == 0"], verify=True)
    assert export.verdict.passed
