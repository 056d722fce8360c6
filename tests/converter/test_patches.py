"""Convolutions of integers and float64, for which ONNX Runtime has no operator."""

import jax
import numpy as np
import pytest
from jax import lax

import converter

RNG = np.random.default_rng(3)
SHAPES = ((2, 4, 9, 7), (6, 2, 3, 5))

conv = lax.conv_general_dilated
FORMS = {
    "grouped": lambda x, w: conv(
        x, w, (2, 1), ((1, 2), (-1, 3)), (1, 1), (2, 1), feature_group_count=2
    ),
    "spread": lambda x, w: conv(
        x, w, (1, 1), ((2, 1), (0, 3)), (2, 3), (1, 2), feature_group_count=2
    ),
    "channels last": lambda x, w: conv(
        *(x[:, :2].transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), (2, 2), "SAME"),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ),
    "groups of the batch": lambda x, w: conv(x[:, :2], w, (1, 1), "SAME", batch_group_count=2),
    "no space": lambda x, w: conv(x[:, :2, 0, 0], w[:, :, 0, 0], (), ()),
}


def drawn(dtype, scale):
    return [(RNG.standard_normal(shape) * scale).astype(dtype) for shape in SHAPES]


def every(x, w):
    return [form(x, w) for form in FORMS.values()]


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "float64"])
def test_other_dtypes(dtype):
    with jax.enable_x64(True):
        inputs = drawn(dtype, 60)
        converter.to_onnx(every, inputs, verify=inputs)


def test_integers_wrap():
    """Their products are far beyond 32 bits; sums may be wider than what is added."""
    inputs = [*(x * np.int32(123457) for x in drawn("int32", 60)), *drawn("int8", 60)]

    def fn(x, w, narrow, kernel):
        wide = lax.conv(narrow[:, :2], kernel, (1, 1), "SAME", preferred_element_type=np.int32)
        return FORMS["grouped"](x, w), wide

    converter.to_onnx(fn, inputs, verify=inputs)


@pytest.mark.full
def test_named_sizes():
    x, w = drawn("int32", 9)
    specs = [(("B", 4, "H", 7), "int32"), w]
    fn = lambda x, w: lax.conv(x[:, :2], w, (1, 2), "SAME")  # noqa: E731
    converter.to_onnx(fn, specs, verify=[x, w])
