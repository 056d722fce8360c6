"""PRNG keys as the numbers that they hold, for which ONNX has a dtype.

A key of threefry is two of uint32, so an array of keys is one of numbers with an axis of two at its
end. No value of a graph has a key's dtype: nodes take and give the numbers, whatever JAX does to
the keys themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from converter.errors import Unsupported
from converter.graph.dims import Shape, as_shape
from converter.graph.nodes import Meaning

GENERATORS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
"""By the name of their dtype, the kinds of keys that JAX has, as it calls them."""

UNCHANGED = frozenset({"random_wrap", "random_unwrap", "random_clone"})
"""Primitives that change the dtype of keys, or nothing."""

DRAWS = frozenset({"random_seed", "random_split", "random_fold_in", "random_bits", "random_gamma"})
"""Primitives that compute something of what keys hold. All others only move keys."""

WRITTEN = "key<fry>"
"""The keys whose draws can be written: threefry is arithmetic alone, and the same everywhere."""

GAMMA = f"random_gamma of {WRITTEN}"
"""The one draw that computes with floats."""


def is_key(array: Any) -> bool:
    """Whether these are keys: an array, its type or a variable's."""
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.extended))


def held(aval: Any) -> tuple[Shape, Any]:
    """The shape and the dtype of the numbers that stand for an array."""
    if not is_key(aval):
        return as_shape(aval.shape), aval.dtype
    return (*as_shape(aval.shape), *_size(aval.dtype)), np.dtype(np.uint32)


@lru_cache
def _size(dtype: Any) -> tuple[int, ...]:
    """The shape of what one key holds."""
    if dtype.name not in GENERATORS:
        raise Unsupported(
            f"keys of dtype {dtype.name} are not among those that JAX has itself; "
            "make them with jax.random.key(seed, impl='threefry2x32')"
        )
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape


def numbers(array: Any) -> Any:
    """What keys hold; any other array is itself."""
    return jax.random.key_data(array) if is_key(array) else array


def keys(array: Any, dtype: Any) -> Any:
    """Keys that hold these numbers, where ``dtype`` is a key's and they are not keys yet."""
    wanted = jax.numpy.issubdtype(dtype, jax.dtypes.extended)
    if not wanted or is_key(array):
        return array
    return jax.random.wrap_key_data(array, impl=GENERATORS[dtype.name])


@lru_cache
def _compiled(primitive: Any, **params: Any) -> Callable[..., Any]:
    """Once for all: what JAX does not compile itself it would compile anew each time."""
    return jax.jit(partial(primitive.bind, **params))


@dataclass(frozen=True)
class OfKeys:
    """What a primitive does to keys, as a function of their numbers.

    ``kind`` names the keys' dtype, ``dtypes`` has that of each operand, and ``on_keys`` is the
    primitive's own meaning.
    """

    primitive: Any
    kind: str
    dtypes: tuple[Any, ...]
    on_keys: Meaning

    def __call__(self, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        if self.primitive.name == "random_gamma":
            return [_compiled(self.primitive, **params)(*self.keys(args))]
        return [numbers(result) for result in self.on_keys(self.keys(args), params)]

    def keys(self, args: Sequence[Any]) -> list[Any]:
        """The operands, keys where the primitive takes them."""
        return [keys(x, dtype) for x, dtype in zip(args, self.dtypes, strict=True)]


def kind(eqn: Any) -> str:
    """The name of the keys' dtype, of an equation that has to do with keys; else nothing."""
    names = (v.aval.dtype.name for v in (*eqn.invars, *eqn.outvars) if is_key(v.aval))
    return next(names, "")
