"""The number of samples that a check compares, if the file is right and if it is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.ir import ops
from converter.model.verdict import LEVELS
from converter.verify.checking import MAX_WRONG_SAMPLES
from converter.verify.noise import PerturbedEvaluation
from tests.programs.table import PROGRAMS

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


@pytest.mark.parametrize(
    "fn", [row.examples[0] for row in ops.ACTIVATIONS.values() if row.absolute_functions]
)
def test_reported_deviations_pass_and_larger_errors_do_not(fn):
    """The operators of these activations have an absolute error, which the report lists."""
    export = converter.to_onnx(fn, [(64, 20)], opset=23, verify=True)
    assert len(export.report.deviations) == 1
    assert not converter.check(export, lambda x: fn(x) * (1 + 1e-4)).passed
    assert not converter.check(export, lambda x: fn(x) + 1e-6).passed


@pytest.mark.parametrize("seed", range(3))
def test_recurrent_operators_pass_on_faint_numbers(seed):
    """The gates of a recurrent operator are off by up to 2e-7, which shows in faint numbers."""
    weights = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32) / 4

    def fn(x, h):
        def step(h, row):
            h = jnp.tanh(row + h @ weights)
            return h, h

        return lax.scan(step, h, x)

    export = converter.to_onnx(fn, [(5, 2, 4), (2, 4)], verify=True)
    assert export.report.fused["RNN"] == 1 and "tanh" in export.report.absolute_functions


def test_errors_of_recurrent_operators_add_up_over_the_steps():
    case = PROGRAMS["recurrent inputs of 1 added"]
    export = case.export()
    assert export.report.fused["RNN"] == 1 and converter.check(export, case.call).passed

    def other(*inputs):
        return jax.tree.map(lambda x: x + 5e-6, case.call(*inputs))

    assert not converter.check(export, other).passed


def test_errors_of_xla_s_gamma_functions_are_allowed():
    """JAX has 0.106954575, with an error of 68 units. The file has 0.10695541, the right digits are
    0.10695544."""
    inputs = [np.float32([0.052561622]), np.float32([0.0728689])]
    export = converter.to_onnx(lax.igammac, inputs)
    assert abs(lax.igammac(*inputs)[0] - 0.10695544) > 8e-7
    assert converter.check(export, lax.igammac, inputs).passed
    assert not converter.check(export, lambda a, x: lax.igammac(a, x) + 1e-5, inputs).passed


def test_errors_of_onnx_runtime_s_sine_are_allowed():
    """The cosine of 1.5681 is 2.7e-3. In the file its error is 1e-16, and the tangent is off by 100
    units."""
    x = np.full(8, 1.568102345)
    with jax.enable_x64(True):
        export = converter.to_onnx(jnp.tan, [x])
        (tangents,) = converter.run(converter.session(export), [x]).values()
        assert abs(tangents / jnp.tan(x) - 1).max() > 2e-15
        assert converter.check(export, jnp.tan, [x]).passed
        assert not converter.check(export, lambda x: jnp.tan(x) * (1 + 1e-11), [x]).passed


def test_functions_that_cancel_are_evaluated_in_loops():
    """JAX compiles a loop after it has traced the steps, which compute with 64-bit numbers here."""

    def fn(a, b, x):
        return lax.map(lambda row: lax.betainc(*row), (a, b, x))

    export = converter.to_onnx(fn, [(3, 5)] * 3)
    assert converter.check(export, fn).passed
    assert not converter.check(export, lambda *xs: fn(*xs) * 1.01).passed


def test_a_sum_that_cancels_may_be_zero_in_the_file():
    """JAX rounds the mean of six equal numbers in each row, so that no difference to it is zero.

    The file has exact zeros in all rows.
    """
    weight = np.random.default_rng(2).standard_normal(1).astype(np.float32)

    def fn(x):
        x = jnp.zeros_like(x) + weight[:, None, None, None]
        return jnp.any(jax.nn.standardize(x, 1), axis=(0, 2, 3))

    export = converter.to_onnx(fn, [(1, 6, 7, 4)], opset=23)
    assert np.asarray(fn(np.zeros((1, 6, 7, 4), np.float32))).all()
    assert converter.check(export, fn).passed
    assert not converter.check(export, lambda x: fn(x).at[2].set(False)).passed


def test_a_difference_of_inputs_is_not_rounded():
    """Two inputs that differ in the last digit have a difference above zero in every runtime."""
    x = np.float32([np.nextafter(np.float32(1), np.float32(2)), 1])
    export = converter.to_onnx(lambda x: x[0] - x[1] > 0, [x])
    assert converter.check(export, lambda x: x[0] - x[1] > 0, [x]).passed
    assert not converter.check(export, lambda x: x[0] - x[1] > 1e-6, [x]).passed
    rounded = converter.to_onnx(lambda x: jnp.exp(x[0]) - jnp.exp(x[1]) > 0, [x])
    assert converter.check(rounded, lambda x: jnp.exp(x[0]) - jnp.exp(x[1]) > 1e-6, [x]).passed


def test_errors_differ_between_the_steps_of_a_scan():
    """Each step adds the same number, so that errors that are equal in all steps would be equal."""

    def fn(x):
        return lax.scan(lambda carry, _: (carry, jnp.exp(x + carry)), x, None, length=8)[1]

    noise = PerturbedEvaluation(converter.to_onnx(fn, [(SIZE,)]).retrace)
    inputs = [np.float32([0.1, 0.2, 0.3])]
    (perturbed,) = noise.evaluate_perturbed(inputs, 1, noise.evaluate_exact(inputs))
    assert all(len(set(column)) > 2 for column in perturbed.T)
