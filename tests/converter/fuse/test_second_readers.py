"""A recognised block replaces its value for all of its readers, or for none.

Several views of each value are outputs of one file. They must equal the value exactly: a value that
is computed twice, fused and unfused, differs from itself by rounding.
"""

from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import converter
from tests.conformance import Case
from tests.converter.fuse.test_activations import ACTIVATIONS
from tests.programs.deviations import FUNCTIONS
from tests.programs.spellings import SPELLINGS
from tests.programs.ways import wrapped

READERS = {
    "flat": lambda y: y.reshape(-1),
    "turned": lambda y: y.T,
    "pairs": lambda y: y.reshape(*y.shape[:-1], *((-1, 2) if y.shape[-1] % 2 == 0 else (-1, 1))),
    "part": lambda y: y[-1:],
    "place": lambda y: jnp.searchsorted(jnp.sort(y.ravel()), y),
}
VIEWS = {"Reshape", "Transpose", "Slice", "Identity", "Unsqueeze", "Squeeze", "Gather", "Split"}
"""Operators that the readers, except the last, may add to a file."""

BATCH_NORM = nnx.BatchNorm(6, use_running_average=True, rngs=nnx.Rngs(0))
IMAGE = (8, 5, 6)
OTHER_CASES = [
    *(Case(name, fn, ((4, 6),)) for name, fn in ACTIVATIONS.items()),
    *(Case(name, FUNCTIONS[name], ((4, 6),)) for name in ("lstm", "gru", "rnn", "max_pool")),
    Case("group_norm", eqx.nn.GroupNorm(4, 8), (IMAGE,)),
    Case("group_norm_bare", eqx.nn.GroupNorm(4, 8, channelwise_affine=False), (IMAGE,)),
    Case("instance_norm", eqx.nn.GroupNorm(8, 8), (IMAGE,)),
    Case("batch_norm", lambda x: BATCH_NORM(x), (IMAGE,)),
    Case("avg_pool", eqx.nn.AvgPool2d(2, 2), (IMAGE,)),
]
FORMS = [(case.name, case) for case in (*SPELLINGS, *OTHER_CASES)]
WRAPS = ("plain", "vmap0", "vmap1", "vmap-1", "nested", "scan")


@pytest.mark.each()
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("form", [f for _, f in FORMS], ids=[n for n, _ in FORMS])
def test_a_value_is_computed_once(form, wrap):
    """Views add no computation, and equal the views of the output, before it and after it."""
    case = wrapped(form, wrap) if wrap != "plain" else form
    fn, rng = case.fn, np.random.default_rng(7)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in case.specs]
    without_readers = Counter(converter.to_onnx(fn, inputs, opset=24).report.histogram)

    def readers(*xs):
        y = jax.tree.leaves(fn(*xs))[0]
        return [read(y) for name, read in READERS.items() if name != "place"], y

    added = Counter(converter.to_onnx(readers, inputs, opset=24).report.histogram) - without_readers
    assert added.keys() <= VIEWS, added
    for first in (True, False):

        def both(*xs, first=first):
            y = jax.tree.leaves(fn(*xs))[0]
            readings = [read(y) for read in READERS.values()]
            return (*readings, y) if first else (y, *readings)

        outputs = list(converter.run(converter.to_onnx(both, inputs, opset=24), inputs).values())
        y, readings = (outputs[-1], outputs[:-1]) if first else (outputs[0], outputs[1:])
        for (name, read), actual in zip(READERS.items(), readings, strict=True):
            np.testing.assert_array_equal(actual, np.asarray(read(jnp.asarray(y))), name)
