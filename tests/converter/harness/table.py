"""Load JAX's table of harnesses and choose a fixed sample of each group."""

import copy
import importlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

DTYPES = (
    *("float32", "int32", "bool", "float16", "bfloat16", "int8", "uint8"),
    *("uint32", "int16", "uint16", "float64", "complex64"),
)


def whole() -> list[Any]:
    """Return all harnesses of JAX's table.

    The table draws some inputs from numpy's global generator when it is imported, so that the
    generator is seeded before and restored after it. **Raises** ImportError if this version of JAX
    has no such table, or if absl-py is missing.
    """
    state = np.random.get_state()
    np.random.seed(7)
    table = importlib.import_module("jax._src.internal_test_util.test_harnesses")
    np.random.set_state(state)
    return list(table.all_harnesses)


def sample(harnesses: list[Any], size: int) -> dict[str, Any]:
    """Return at most ``size`` harnesses of each group by full name, taking the dtypes in turn.

    The choice depends on the names alone, so that it stays stable when a release of JAX adds or
    removes harnesses. Harnesses that JAX itself does not run on a CPU are left out.
    """
    groups: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for harness in sorted(harnesses, key=lambda h: zlib.crc32(h.fullname.encode())):
        dtype = np.dtype(harness.dtype).name
        if dtype in DTYPES and harness.filter("cpu"):
            groups[harness.group_name][dtype].append(harness)
    chosen = {group: _take_in_turn(groups[group], size) for group in sorted(groups)}
    return {h.fullname: _keep_unique_parts(h) for selected in chosen.values() for h in selected}


def _keep_unique_parts(harness: Any) -> Any:
    """Return the harness with only the parts of its result that are unique (see `DETERMINED`)."""
    if harness.group_name not in DETERMINED:
        return harness
    reduced, decompose = copy.copy(harness), harness.fun
    reduced.fun = lambda *args: DETERMINED[harness.group_name](decompose(*args))
    return reduced


def _unique_svd(result: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the singular values, the absolute values of their vectors, and for the vectors of zero
    singular values the projections onto their spaces."""
    values, *vectors = result
    if not vectors:
        return [values]
    left, right = vectors[0], jnp.swapaxes(vectors[1], -1, -2)
    count = values.shape[-1]
    null_vectors = [v[..., count:] for v in (left, right)]
    projections = [v @ jnp.swapaxes(v, -1, -2) for v in null_vectors]
    return [values, *(jnp.abs(v[..., :count]) for v in (left, right)), *projections]


DETERMINED: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda result: jax.tree.map(jnp.abs, result),
    "svd": _unique_svd,
}
"""Functions by group that keep what is unique of a result: eigenvectors have either sign."""


def _take_in_turn(by_dtype: dict[str, list[Any]], size: int) -> list[Any]:
    """Return at most ``size`` harnesses: the first of each dtype, then the second of each, …"""
    rounds = zip_longest(*(by_dtype[dtype] for dtype in DTYPES if dtype in by_dtype))
    return [harness for round_ in rounds for harness in round_ if harness is not None][:size]


def arguments(harness: Any) -> list[np.ndarray]:
    """Return the inputs that the harness draws from a fixed seed, in the dtypes that JAX uses."""
    rng = np.random.RandomState(zlib.crc32(harness.fullname.encode()))
    return [np.asarray(jnp.asarray(x)) for x in harness.dyn_args_maker(rng)]


def reference(harness: Any) -> Callable[..., Any]:
    """Return the function that a file is compared with: the harness's function.

    An unstable sort is replaced by a stable one. JAX does not define the order of equal keys, and
    the converter writes the stable order.
    """
    params = harness.params
    if harness.group_name != "sort" or params["is_stable"]:
        return harness.dyn_fun
    options = {name: params[name] for name in ("dimension", "num_keys")}
    return lambda *operands: lax.sort(operands, is_stable=True, **options)
