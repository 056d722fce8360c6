"""Conversion, explanation and bisection are asked with the same words."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import converter

X = np.ones((2, 3), np.float32)

OF_FILES = {
    *("path", "external_data", "verify", "accept_open", "metadata", "source_lines", "functions"),
}


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_users_see_every_keyword():
    ours = keywords(converter.to_onnx)
    graphs = {name: default for name, default in ours.items() if name not in OF_FILES}
    assert ours.keys() > graphs.keys()
    assert keywords(converter.explain) == graphs
    assert keywords(converter.bisect) == {"specs": None, **graphs}


@pytest.mark.parametrize(
    ("args", "options", "reason"),
    [
        ((jnp.sin, [X]), {"opsets": 18}, "to_onnx: got an unexpected keyword argument 'opsets'"),
        ((jnp.sin, [X], 18), {}, "to_onnx: too many positional arguments"),
        ((), {}, "to_onnx: missing a required argument: 'fn'"),
    ],
)
def test_a_wrong_word_is_named(args, options, reason):
    with pytest.raises(TypeError, match=reason):
        converter.to_onnx(*args, **options)


def test_requests_of_the_same_do_not_share_what_was_noted():
    first, second = (converter.to_onnx(jnp.argmax, [X]).report for _ in range(2))
    assert first.deviations == second.deviations != []
