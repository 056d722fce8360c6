"""Conversion, explanation and bisection are asked with the same words."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import converter

X = np.ones((2, 3), np.float32)

KEYWORDS = {
    **{"params": None, "kwargs": None, "constraints": (), "opset": None, "path": None},
    **{"external_data": None, "attention_layout": None, "strict": False, "fold": True},
    **{"fuse": True, "target": "onnxruntime", "input_names": None, "output_names": None},
    **{"channels_first": (), "verify": False, "metadata": None, "source_lines": False},
    **{"functions": False, "accept_open": ()},
}
"""What people write, and what holds where they do not."""

OF_FILES = {
    "path",
    "external_data",
    "verify",
    "accept_open",
    "metadata",
    "source_lines",
    "functions",
}


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_users_see_every_keyword():
    assert keywords(converter.to_onnx) == KEYWORDS
    graphs = {name: value for name, value in KEYWORDS.items() if name not in OF_FILES}
    assert keywords(converter.explain) == graphs
    assert keywords(converter.bisect) == {"specs": None, **graphs}
    assert [*inspect.signature(converter.bisect).parameters][:2] == ["fn", "inputs"]
    assert [*inspect.signature(converter.to_onnx).parameters][:2] == ["fn", "specs"]
    for name in KEYWORDS:
        assert f"\n        {name}: " in converter.to_onnx.__doc__


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
