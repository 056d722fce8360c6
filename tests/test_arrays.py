"""The comparison of two arrays finds every difference that its tolerance does not accept."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.arrays import EXACT, Tolerance, describe_difference

ONES = np.ones(3, np.float32)
UNIT = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance"),
    [
        (ONES, ONES.astype(np.float64), EXACT),
        (ONES, ONES[:2], EXACT),
        (ONES * 0, -ONES * 0, EXACT),
        (ONES * np.nan, ONES, Tolerance(1e9)),
        (ONES * np.inf, ONES, Tolerance(1e9)),
        (ONES * np.inf, -ONES * np.inf, Tolerance(1e9, zero_signs=False)),
        (ONES * np.float32(1e-40), ONES * 0, EXACT),
        (ONES + 3 * UNIT, ONES, Tolerance(2)),
        (np.float32([1, 1e-6]), np.float32([1, 2e-6]), Tolerance(2)),
        (np.int32([1, 2]), np.int32([1, 3]), Tolerance(1e9)),
        (np.array([True]), np.array([False]), Tolerance(1e9)),
        (jnp.bfloat16(1.0078125) * np.ones(1), np.ones(1, jnp.bfloat16), EXACT),
    ],
)
def test_differences_are_described(actual, expected, tolerance):
    assert "not" in describe_difference(actual, expected, tolerance)


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance"),
    [
        (ONES * np.nan, -ONES * np.nan, EXACT),
        (ONES * np.inf, ONES * np.inf, EXACT),
        (ONES * 0, -ONES * 0, Tolerance(zero_signs=False)),
        (ONES * np.float32(1e-40), ONES * 0, Tolerance(subnormals=False)),
        (ONES + 2 * UNIT, ONES, Tolerance(2)),
        (np.float32([1, 0]), np.float32([1, 2 * UNIT]), Tolerance(2, of_largest=True)),
        (np.float32([0, 0]), np.float32([0, 2 * UNIT]), Tolerance(2, magnitude=1)),
    ],
)
def test_accepted_differences_are_not_described(actual, expected, tolerance):
    assert not describe_difference(actual, expected, tolerance)


def test_an_alternative_explains_numbers_but_no_signs():
    assert describe_difference(ONES, ONES + 1)
    assert not describe_difference(ONES, ONES + 1, alternative=ONES.astype(np.float64))
    assert describe_difference(-ONES * 0, ONES * 0, alternative=-ONES * 0)
