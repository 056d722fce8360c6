"""Rounding of rotary embeddings in bfloat16, and for angles near 2**30, against float64."""

import jax
import jax.numpy as jnp
import numpy as np

import converter

RNG = np.random.default_rng(0)
WIDTH = 64


def frequencies():
    return 1 / 10000 ** (jnp.arange(0, WIDTH, 2) / WIDTH)


def rotate(x, cos, sin, xp=jnp):
    first, second = xp.split(x, 2, -1)
    return x * cos + xp.concatenate([-second, first], -1) * sin


def convert_and_run(fn, *inputs, **options):
    export = converter.to_onnx(fn, inputs, verify=inputs, **options)
    return export, np.asarray(*converter.run(export, inputs).values())


def test_a_fused_rotation_in_bfloat16_rounds_once():
    """The operator rounds only its result; the JAX program rounds both products too."""
    angles = np.arange(9)[:, None] * np.tile(frequencies(), 2)
    tables = [f(angles).astype(jnp.bfloat16) for f in (np.cos, np.sin)]
    x = RNG.standard_normal((1, 3, 9, WIDTH)).astype(jnp.bfloat16)

    def fn(x):
        return rotate(x, *map(jnp.asarray, tables))

    exact = [np.asarray(y, np.float64) for y in (x, *tables)]
    expected = rotate(*exact, np).astype(jnp.bfloat16)
    export, fused = convert_and_run(fn, x)
    assert export.report.fused["RotaryEmbedding"] == 1
    np.testing.assert_array_equal(fused, expected)
    np.testing.assert_array_equal(convert_and_run(fn, x, fuse=False)[1], fn(x))

    def mean_error(y):
        """Return the mean absolute error in float64."""
        return np.abs(np.asarray(y, np.float64) - rotate(*exact, np)).mean()

    assert mean_error(fused) < 0.9 * mean_error(fn(x))


def test_angles_near_2_to_the_30_are_not_determined():
    """At position 2**30 - 1, compiled and uncompiled JAX differ; all other positions agree.

    One unit in the last place of a frequency rotates by some radians there. The sine is not at
    fault: for the same angles, ONNX Runtime reduces their range as float64 does.
    """
    positions = np.array([[2**30 - 1, 0, 1, 2]], np.int32)
    keys = RNG.standard_normal((1, 2, 4, WIDTH)).astype(np.float32)

    def fn(keys, positions):
        angles = positions[:, None, :, None].astype(jnp.float32) * jnp.tile(frequencies(), 2)
        return rotate(keys, jnp.cos(angles), jnp.sin(angles))

    _, actual = convert_and_run(fn, keys, positions)
    compiled, stepwise = jax.jit(fn)(keys, positions), fn(keys, positions)
    assert np.abs(compiled - stepwise)[:, :, 0].max() > 1
    np.testing.assert_allclose(actual[:, :, 1:], compiled[:, :, 1:], atol=2e-6)
    np.testing.assert_allclose(actual[:, :, 1:], stepwise[:, :, 1:], atol=2e-6)
    angles = np.float32(positions.ravel()[0]) * np.asarray(frequencies())
    for name in ("sin", "cos"):
        _, actual = convert_and_run(getattr(jnp, name), angles)
        expected = getattr(np, name)(angles.astype(np.float64))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1.2e-7)
