"""Keyword arguments of conversion, explanation and bisection, which are the same."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import converter

X = np.ones((2, 3), np.float32)

OF_FILES = {
    *("path", "external_data", "verify", "accept_open", "metadata", "source_lines", "functions"),
}
"""Keywords that concern the file, which only `to_onnx` has."""


def keywords(function):
    """Return the keyword-only parameters of a function with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_explain_and_bisect_have_the_keywords_of_to_onnx():
    to_onnx_keywords = keywords(converter.to_onnx)
    graph_keywords = {
        name: default for name, default in to_onnx_keywords.items() if name not in OF_FILES
    }
    assert to_onnx_keywords.keys() > graph_keywords.keys()
    assert keywords(converter.explain) == graph_keywords
    assert keywords(converter.bisect) == {"specs": None, **graph_keywords}


@pytest.mark.parametrize(
    ("args", "options", "reason"),
    [
        ((jnp.sin, [X]), {"opsets": 18}, "to_onnx: got an unexpected keyword argument 'opsets'"),
        ((jnp.sin, [X], 18), {}, "to_onnx: too many positional arguments"),
        ((), {}, "to_onnx: missing a required argument: 'fn'"),
    ],
)
def test_invalid_arguments_are_named(args, options, reason):
    with pytest.raises(TypeError, match=reason):
        converter.to_onnx(*args, **options)


def test_equal_requests_do_not_share_reports():
    first, second = (converter.to_onnx(jnp.argmax, [X]).report for _ in range(2))
    assert first.deviations == second.deviations != []
