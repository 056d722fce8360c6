"""The number of samples that a check compares, if the file is right and if it is wrong."""

import jax.numpy as jnp

import converter
from converter.model.verdict import LEVELS
from converter.verify.checking import MAX_WRONG_SAMPLES

SIZE = 3


def compared_samples(verdict):
    """Return the number of samples that were compared at each level of optimization."""
    (elements,) = verdict.elements.values()
    return elements.judged / SIZE / len(LEVELS)


def test_a_wrong_file_is_compared_on_a_few_samples():
    export = converter.to_onnx(lambda x: x * 2, [(SIZE,)])
    assert compared_samples(converter.check(export, lambda x: x * 2)) > 32
    verdict = converter.check(export, lambda x: x * 3)
    # The sample of zeros is right.
    assert not verdict.passed and compared_samples(verdict) == MAX_WRONG_SAMPLES + 1


def test_rare_errors_are_found_among_all_samples():
    """A file that is wrong in fewer samples than the limit is compared on all of them."""
    export = converter.to_onnx(lambda x: x * 2, [(SIZE,)])
    verdict = converter.check(export, lambda x: jnp.where((x == 0).all(), 1.0, x * 2))
    assert not verdict.passed and compared_samples(verdict) > 32
