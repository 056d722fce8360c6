"""What roundings do to rotated numbers: in bfloat16, and by angles near 2**30."""

import jax
import jax.numpy as jnp
import numpy as np

import converter

RNG = np.random.default_rng(0)
WIDTH = 64


def frequencies():
    return 1 / 10000 ** (jnp.arange(0, WIDTH, 2) / WIDTH)


def turned(x, cos, sin, xp=jnp):
    first, second = xp.split(x, 2, -1)
    return x * cos + xp.concatenate([-second, first], -1) * sin


def ran(fn, *inputs, **how):
    export = converter.to_onnx(fn, inputs, verify=inputs, **how)
    return export, np.asarray(*converter.run(export, inputs).values())


def test_a_fused_rotation_in_bfloat16_rounds_once():
    """The program rounds both products too; the operator is right to the last bit without that."""
    angles = np.arange(9)[:, None] * np.tile(frequencies(), 2)
    tables = [f(angles).astype(jnp.bfloat16) for f in (np.cos, np.sin)]
    x = RNG.standard_normal((1, 3, 9, WIDTH)).astype(jnp.bfloat16)

    def fn(x):
        return turned(x, *map(jnp.asarray, tables))

    wide = [np.asarray(y, np.float64) for y in (x, *tables)]
    right = turned(*wide, np).astype(jnp.bfloat16)
    export, fused = ran(fn, x)
    assert export.report.fused["RotaryEmbedding"] == 1
    np.testing.assert_array_equal(fused, right)
    np.testing.assert_array_equal(ran(fn, x, fuse=False)[1], fn(x))

    def off(y):
        return np.abs(np.asarray(y, np.float64) - turned(*wide, np)).mean()

    assert off(fused) < 0.9 * off(fn(x))


def test_angles_near_2_to_the_30_are_anybodys():
    """One unit in the last place of a frequency turns padding by some radians, in JAX as well.

    It is no fault of the sine: given the angles, ONNX Runtime reduces their range as float64 does.
    """
    positions = np.array([[2**30 - 1, 0, 1, 2]], np.int32)
    keys = RNG.standard_normal((1, 2, 4, WIDTH)).astype(np.float32)

    def fn(keys, positions):
        angles = positions[:, None, :, None].astype(jnp.float32) * jnp.tile(frequencies(), 2)
        return turned(keys, jnp.cos(angles), jnp.sin(angles))

    _, got = ran(fn, keys, positions)
    compiled, stepwise = jax.jit(fn)(keys, positions), fn(keys, positions)
    assert np.abs(compiled - stepwise)[:, :, 0].max() > 1
    np.testing.assert_allclose(got[:, :, 1:], compiled[:, :, 1:], atol=2e-6)
    np.testing.assert_allclose(got[:, :, 1:], stepwise[:, :, 1:], atol=2e-6)
    angles = np.float32(positions.ravel()[0]) * np.asarray(frequencies())
    for name in ("sin", "cos"):
        _, found = ran(getattr(jnp, name), angles)
        wanted = getattr(np, name)(angles.astype(np.float64))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1.2e-7)
