"""Which of JAX's harnesses are tried: a fixed sample of each group."""

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
    """JAX's table. It draws some inputs when it is imported, from numpy's common generator.

    Raises:
        ImportError: this JAX comes without it, or absl-py is missing.
    """
    state = np.random.get_state()
    np.random.seed(7)
    table = importlib.import_module("jax._src.internal_test_util.test_harnesses")
    np.random.set_state(state)
    return list(table.all_harnesses)


def sample(harnesses: list[Any], size: int) -> dict[str, Any]:
    """At most ``size`` harnesses of a group by name, of the dtypes in turn.

    Which ones depends on their names alone, so that another release of JAX, which adds and removes
    some, leaves the others. What JAX itself does not run on a CPU is left out.
    """
    groups: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for harness in sorted(harnesses, key=lambda h: zlib.crc32(h.fullname.encode())):
        dtype = np.dtype(harness.dtype).name
        if dtype in DTYPES and harness.filter("cpu"):
            groups[harness.group_name][dtype].append(harness)
    chosen = {group: _in_turn(groups[group], size) for group in sorted(groups)}
    return {h.fullname: _determined(h) for found in chosen.values() for h in found}


def _determined(harness: Any) -> Any:
    """The same harness of what its result determines."""
    if harness.group_name not in DETERMINED:
        return harness
    twin, decompose = copy.copy(harness), harness.fun
    twin.fun = lambda *args: DETERMINED[harness.group_name](decompose(*args))
    return twin


def _singular(result: Sequence[jax.Array]) -> list[jax.Array]:
    """Singular values, their vectors up to the sign, and onto what the other vectors project."""
    values, *vectors = result
    if not vectors:
        return [values]
    left, right = vectors[0], jnp.swapaxes(vectors[1], -1, -2)
    count = values.shape[-1]
    others = [v[..., count:] for v in (left, right)]
    projections = [v @ jnp.swapaxes(v, -1, -2) for v in others]
    return [values, *(jnp.abs(v[..., :count]) for v in (left, right)), *projections]


DETERMINED: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda result: jax.tree.map(jnp.abs, result),
    "svd": _singular,
}
"""Eigenvectors are one as good as the other with either sign."""


def _in_turn(by_dtype: dict[str, list[Any]], size: int) -> list[Any]:
    rounds = zip_longest(*(by_dtype[dtype] for dtype in DTYPES if dtype in by_dtype))
    return [harness for each in rounds for harness in each if harness is not None][:size]


def arguments(harness: Any) -> list[np.ndarray]:
    """The harness's own inputs, always the same, in the dtypes that JAX takes them in."""
    rng = np.random.RandomState(zlib.crc32(harness.fullname.encode()))
    return [np.asarray(jnp.asarray(x)) for x in harness.dyn_args_maker(rng)]


def reference(harness: Any) -> Callable[..., Any]:
    """What a file is held to: the harness's function.

    Which of equal keys an unstable sort puts first JAX leaves open, and XLA's own order is that of
    its algorithm; ours is the stable one.
    """
    given = harness.params
    if harness.group_name != "sort" or given["is_stable"]:
        return harness.dyn_fun
    how = {name: given[name] for name in ("dimension", "num_keys")}
    return lambda *operands: lax.sort(operands, is_stable=True, **how)
