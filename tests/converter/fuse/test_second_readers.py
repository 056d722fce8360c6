"""What is recognised replaces the value for all who read it, in whatever shape, or is left alone.

A value that is computed twice, once fused and once not, is not equal to itself.
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
from tests.converter.test_exactness import FUNCTIONS
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
"""What readers but the last may add to a file."""

BATCH_NORM = nnx.BatchNorm(6, use_running_average=True, rngs=nnx.Rngs(0))
IMAGE = (8, 5, 6)
MORE = [
    *(Case(name, fn, ((4, 6),)) for name, fn in ACTIVATIONS.items()),
    *(Case(name, FUNCTIONS[name], ((4, 6),)) for name in ("lstm", "gru", "rnn", "max_pool")),
    Case("group_norm", eqx.nn.GroupNorm(4, 8), (IMAGE,)),
    Case("group_norm_bare", eqx.nn.GroupNorm(4, 8, channelwise_affine=False), (IMAGE,)),
    Case("instance_norm", eqx.nn.GroupNorm(8, 8), (IMAGE,)),
    Case("batch_norm", lambda x: BATCH_NORM(x), (IMAGE,)),
    Case("avg_pool", eqx.nn.AvgPool2d(2, 2), (IMAGE,)),
]
FORMS = [(case.name, case) for case in (*SPELLINGS, *MORE)]
WRAPS = ("plain", "vmap0", "vmap1", "vmap-1", "nested", "scan")


@pytest.mark.each()
@pytest.mark.parametrize("how", WRAPS)
@pytest.mark.parametrize("form", [f for _, f in FORMS], ids=[n for n, _ in FORMS])
def test_a_value_is_computed_once(form, how):
    """What is read in other ways, before the value itself or after it, is what was read."""
    case = wrapped(form, how) if how != "plain" else form
    fn, rng = case.fn, np.random.default_rng(7)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in case.specs]
    alone = Counter(converter.to_onnx(fn, inputs, opset=24).report.histogram)

    def readers(*xs):
        y = jax.tree.leaves(fn(*xs))[0]
        return [read(y) for name, read in READERS.items() if name != "place"], y

    added = Counter(converter.to_onnx(readers, inputs, opset=24).report.histogram) - alone
    assert added.keys() <= VIEWS, added
    for first in (True, False):

        def both(*xs, first=first):
            y = jax.tree.leaves(fn(*xs))[0]
            readings = [read(y) for read in READERS.values()]
            return (*readings, y) if first else (y, *readings)

        got = list(converter.run(converter.to_onnx(both, inputs, opset=24), inputs).values())
        y, readings = (got[-1], got[:-1]) if first else (got[0], got[1:])
        for (name, read), actual in zip(READERS.items(), readings, strict=True):
            np.testing.assert_array_equal(actual, np.asarray(read(jnp.asarray(y))), name)
