"""Convolutions and pooling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, JUDGES, Case, drawn

RNG = np.random.default_rng(0)
IMAGE, KERNEL = (2, 4, 9, 8), (6, 4, 3, 2)
conv = lax.conv_general_dilated
HWIO = RNG.standard_normal((3, 2, 4, 6)).astype(np.float32)
BIAS = RNG.standard_normal(6).astype(np.float32)
NHWC = ("NHWC", "HWIO", "NHWC")

CONVOLUTIONS = [
    Case("negative padding", lambda x, w: conv(x, w, (1, 2), ((-1, 2), (0, -2))), (IMAGE, KERNEL)),
    Case("dilated everything", lambda x, w: conv(x, w, (1, 1), ((2, 2), (2, 2)),
                                                 lhs_dilation=(2, 2), rhs_dilation=(2, 3)),
         (IMAGE, KERNEL), ops={"ConvTranspose": 1}, tags=DEFAULT),
    Case("groups, dilated input", lambda x, w: conv(x, w, (1, 1), ((1, 1), (1, 1)),
                                                    lhs_dilation=(2, 2), feature_group_count=2),
         (IMAGE, (6, 2, 3, 2)), ops={"ConvTranspose": 1}),
    Case("batch groups", lambda x, w: conv(x, w, (1, 1), "VALID", batch_group_count=2),
         ((4, 3, 7, 8), (6, 3, 3, 3)), tags=DEFAULT | {"vmap last"}),
    Case("no axis", lambda x, w: conv(x, w, (), ()), ((3, 4), (6, 4)), tags=DEFAULT),
    Case("known kernel, channels last, bias", lambda x: conv(
        x, HWIO, (1, 2), "SAME", dimension_numbers=NHWC) + BIAS, (("B", 7, 8, 4),),
        ops={"Conv": 1, "Add": 0, "Transpose": 2}),
    Case("bias that is data", lambda x, w, b: conv(x, w, (1, 1), "VALID") + b[:, None, None],
         (IMAGE, KERNEL, (6,)), ops={"Conv": 1, "Add": 1}),
    Case("no bias along space", lambda x, w, b: conv(x, w, (1, 1), "SAME") + b,
         (IMAGE, KERNEL, (8,)), ops={"Conv": 1, "Add": 1}),
    Case("bias of a shared result", lambda x, w, b: (
        (y := conv(x, w, (1, 1), "VALID")), y + b[:, None, None]), (IMAGE, KERNEL, (6,)),
        ops={"Conv": 1, "Add": 1}),
    Case("wider result", lambda x, w: conv(x, w, (1, 1), "VALID",
                                           preferred_element_type=jnp.float32),
         ((IMAGE, np.float16), (KERNEL, np.float16))),
    Case("gradient with groups", jax.grad(
        lambda x, w: (conv(x, w, (1, 2), "SAME", feature_group_count=2) ** 2).sum(), (0, 1)),
        (IMAGE, (6, 2, 3, 2)), tolerance=4, tags=DEFAULT),
]  # fmt: skip

# ONNX Runtime has no kernel of `Conv` for the dtypes of these programs.
FORMS = {
    "grouped": lambda x, w: conv(
        x, w, (2, 1), ((1, 2), (-1, 3)), (1, 1), (2, 1), feature_group_count=2
    ),
    "spread": lambda x, w: conv(
        x, w, (1, 1), ((2, 1), (0, 3)), (2, 3), (1, 2), feature_group_count=2
    ),
    "channels last": lambda x, w: conv(
        *(x[:, :2].transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), (2, 2), "SAME"),
        dimension_numbers=NHWC,
    ),
    "groups of the batch": lambda x, w: conv(x[:, :2], w, (1, 1), "SAME", batch_group_count=2),
    "no space": lambda x, w: conv(x[:, :2, 0, 0], w[:, :, 0, 0], (), ()),
}
OTHER_DTYPES = ("uint8", "int16", "uint32", "float64")


WITHOUT_KERNELS = [
    *(Case(f"{name} of {d}", form, (((2, 4, 9, 7), d), ((6, 2, 3, 5), d)), x64=d == "float64")
      for name, form in FORMS.items() for d in OTHER_DTYPES),
    Case("named space of integers", lambda x, w: conv(x[:, :2], w, (1, 2), "SAME"),
         ((("B", 4, "H", 7), "int32"), ((6, 2, 3, 5), "int32"))),
]  # fmt: skip

DILATED = drawn(
    lambda key: eqx.nn.ConvTranspose2d(4, 6, 3, stride=2, dilation=2, groups=2, key=key)
)
LAYERS = [
    Case("ConvTranspose2d groups", jax.vmap(DILATED), (("B", 4, 7, 6),),
         ops={"ConvTranspose": 1, "Add": 0, "Transpose": 0}, tags=DEFAULT),
]  # fmt: skip


def total(x):
    """Sum over windows that extend over one end of an axis by more than over the other."""
    pads = ((0, 0), (0, 0), (0, 1), (2, 1))
    return lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 3), (1, 1, 3, 2), pads)


MAX = eqx.nn.MaxPool2d
POOLING = [
    Case("max padded", jax.vmap(MAX(3, 2, padding=1)), (("B", 4, 9, 11),), ops={"MaxPool": 1},
         tags=DEFAULT),
    Case("average of what is not padding", lambda x: total(x) / total(jnp.ones((1, 1, 8, 9))),
         (("B", 4, 8, 9),), (17, 23), {"AveragePool": 1, "Mul": 0, "Div": 0},
         tags=DEFAULT | {JUDGES}),
    Case("sum by the counts of another window",
         lambda x: total(x) / total(jnp.ones((1, 1, 8, 9)))[..., ::-1],
         (("B", 4, 8, 9),), ops={"AveragePool": 1, "Div": 1}),
    Case("sum, padded far, dilated", lambda x: lax.reduce_window(
        x, 0.0, lax.add, (2, 1, 3), (1, 2, 1), ((0, 1), (0, 0), (3, -1)),
        window_dilation=(1, 1, 2), base_dilation=(1, 1, 2)), ((4, 5, 6),), (17, 19)),
    Case("windows of one element, padded", lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (1, 1, 1, 1), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 2),
                                                                        (0, 1))),
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 1, 1), (1, 1, 2, 1), "VALID")),
         ((2, 3, 5, 6),), (18, 23), {"MaxPool": 0, "AveragePool": 0}),
    Case("zeros around what is pooled", lambda x: lax.reduce_window(
        jnp.pad(-jnp.abs(x), ((0, 0), (0, 0), (1, 1), (1, 1))), -jnp.inf, lax.max,
        (1, 1, 3, 3), (1, 1, 2, 2), "VALID"), ((2, 3, 5, 6),), (18, 23), {"MaxPool": 1}),
    Case("padded by more than the window", lambda x: lax.reduce_window(
        x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 1, 1), ((0, 0), (0, 0), (3, 2), (0, 1))),
        ((2, 3, 5, 6),), (18, 23), {"AveragePool": 1}, tags=DEFAULT),
    *(Case(f"gradient of the largest along {count} axes", jax.grad(lambda x, w=window: (
        lax.reduce_window(x, -jnp.inf, lax.max, w, w, "VALID") ** 2).sum()), ((2, 4, 5, 4, 3),),
        ops={"MaxPool": 2 * (count == 3)}, tags=DEFAULT)
      for count, window in ((3, (1, 1, 2, 2, 2)), (4, (1, 2, 2, 2, 2)))),
    Case("nothing left of a window", lambda x: lax.reduce_window(
        x, 0.0, lax.add, (3,), (2,), ((1, 0),), window_dilation=(2,)), ((3,),), (18, 23)),
]  # fmt: skip

PROGRAMS = [*CONVOLUTIONS, *WITHOUT_KERNELS, *LAYERS, *POOLING]
