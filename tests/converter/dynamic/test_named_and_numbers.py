"""A dimension that is a name in one input and a number in another, which JAX needs to be equal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter

SIZE = 7
"""Of a dimension that has a name; 4 is what the other input has."""

FUNCTIONS = {
    "where": lambda x, y: jnp.where(x > 0, x, y),
    "concatenate": lambda x, y: jnp.concatenate([x, y], 1),
    "einsum": lambda x, y: jnp.einsum("bi,bi->b", x, y),
    "scan": lambda x, y: lax.scan(lambda c, xy: (c, xy[0] * xy[1]), 0.0, (x, y))[1],
    "dynamic_update_slice": lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)),
    "sort": lambda x, y: lax.sort((x, y), num_keys=1, dimension=0),
    "reshape of more": lambda x, y: (x[:, None] * jnp.ones((5, 1))).reshape(*y.shape, 5),
    "cond": lambda x, y: lax.cond(x.sum() > 0, lambda: x, lambda: y),
    "segment_sum": lambda x, y: jax.ops.segment_sum(x, (y[:, 0] > 0).astype(int), 4),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("specs", [(("B", 3), (4, 3)), ((4, 3), ("B", 3))], ids=["first", "last"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_refused_or_runs(name, specs):
    """With a sentence that names it; where there is a file, it runs at another size."""
    fn = FUNCTIONS[name]
    try:
        export = converter.to_onnx(fn, list(specs))
    except converter.Unsupported as error:
        assert "dimension 'B'" in str(error)
        assert "specs" in str(error) or "constraints=" in str(error)
        return
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal([SIZE if d == "B" else d for d in s], np.float32) for s in specs]
    assert converter.check(export, fn, arrays).passed
