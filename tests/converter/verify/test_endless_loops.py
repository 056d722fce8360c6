"""Samples on which a loop does not end are left out, and the verdict says so."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter


def until_large(x):
    """Double numbers until their sum is large, which never happens for zeros."""
    return lax.while_loop(lambda a: jnp.abs(a).sum() < 10, lambda a: a * 2, x)


def test_zeros_are_left_out_where_a_loop_does_not_end():
    export = converter.to_onnx(until_large, [(3,)])
    verdict = converter.check(export, until_large)
    (sentence,) = verdict.untaken
    assert verdict.passed and "did not end within 65,536 turns on zeros inputs" in sentence
    assert f"{__file__}:13 (until_large)" in sentence and sentence in str(verdict)
    assert not converter.check(export, lambda x: until_large(x) * 1.001).passed


def test_a_loop_of_many_turns_is_verified():
    """The count of turns is below the limit, but above the number of turns that are observed."""

    def fn(x):
        count = 3_000 + jnp.sum(x > 0)  # depends on the input, so that the loop is observed
        return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, s[1] * 0.999), (0, x))[1]

    export = converter.to_onnx(fn, [(3,)])
    verdict = converter.check(export, fn)
    assert verdict.passed and not any("did not end" in sentence for sentence in verdict.untaken)


def test_a_loop_that_ends_on_no_drawn_inputs_is_refused():
    def fn(x):
        return lax.while_loop(lambda a: a.sum() != 1234.5, lambda a: a + 0.0, x)

    export = converter.to_onnx(fn, [(2,)])
    with pytest.raises(converter.CheckError, match="more than 65,536 turns, or never ends"):
        converter.check(export, fn)
    assert converter.check(export, fn, [np.float32([1000, 234.5])]).passed
