"""Represent PRNG keys by their numbers and complex numbers by pairs of real numbers.

A threefry key is two uint32 numbers, so that an array of keys becomes an array of numbers with a
last axis of size two. No value of a graph has the dtype of a key or a complex dtype. The meaning of
a node on such values is the JAX primitive on the original keys or complex numbers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import jax
import numpy as np

from converter.errors import UnsupportedError
from converter.ir import Graph, Node, Value, const
from converter.ir.complex_pairs import is_complex, packed, real_type, unpack_complex
from converter.ir.dims import Shape, as_shape
from converter.ir.names import Names
from converter.ir.nodes import Meaning
from converter.ir.rewrite import Editor

COMPLEX = "complex numbers"

KEY_IMPLEMENTATIONS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
"""JAX's PRNG implementations by the name of the dtype of their keys."""

IDENTITY_PRIMITIVES = frozenset({"random_wrap", "random_unwrap", "random_clone"})
"""Primitives that only change the dtype of keys, or nothing."""

DRAWING_PRIMITIVES = frozenset(
    {"random_seed", "random_split", "random_fold_in", "random_bits", "random_gamma"}
)
"""Primitives that compute with the numbers of keys. All others only move keys."""

THREEFRY = "key<fry>"
"""The keys that can be converted: threefry is plain arithmetic with the same results everywhere."""


def is_key(array: Any) -> bool:
    """Return True if an array, a type or a variable of a jaxpr holds PRNG keys."""
    return _is_extended(array.dtype)


@cache
def _is_extended(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def graph_type(aval: Any) -> tuple[Shape, Any]:
    """Return the shape and the dtype that an array has in the graph."""
    if is_key(aval):
        return (*as_shape(aval.shape), *_key_shape(aval.dtype)), np.dtype(np.uint32)
    shape, dtype = real_type(aval.shape, aval.dtype)
    return as_shape(shape), dtype


@lru_cache
def _key_shape(dtype: Any) -> tuple[int, ...]:
    """Return the shape of the numbers of one key."""
    if dtype.name not in KEY_IMPLEMENTATIONS:
        raise UnsupportedError(
            f"keys of dtype {dtype.name} are not among those that JAX has itself; "
            "make them with jax.random.key(seed, impl='threefry2x32')"
        )
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape


def key_numbers(array: Any) -> Any:
    """Return the numbers of keys; other arrays are returned unchanged."""
    return jax.random.key_data(array) if is_key(array) else array


def graph_numbers(array: Any) -> Any:
    """Return an array in the form that it has in the graph."""
    return packed(key_numbers(array))


def to_jax_array(array: Any, struct: Any) -> Any:
    """Return an array of a JAX type, which may be given in the form of the graph."""
    if is_complex(struct.dtype):
        return unpack_complex(array, len(struct.shape))
    if not is_key(struct) or is_key(array):
        return array
    return jax.random.wrap_key_data(array, impl=KEY_IMPLEMENTATIONS[struct.dtype.name])


def key_kind(avals: Iterable[Any]) -> str:
    """Return the dtype name of the first keys or complex numbers among the types, or ""."""
    kinds = (
        a.dtype.name if is_key(a) else COMPLEX for a in avals if is_key(a) or is_complex(a.dtype)
    )
    return next(kinds, "")


@lru_cache
def _compile_once(primitive: Any, **params: Any) -> Callable[..., Any]:
    """Return a compiled primitive, cached because JAX would compile it again in every call."""
    return jax.jit(partial(primitive.bind, **params))


@dataclass(frozen=True)
class HeldFunction:
    """The function of a primitive on keys or complex numbers, applied to the arrays of the graph.

    Arguments:
        primitive: the JAX primitive.
        kind: the result of ``key_kind()``.
        types: the types of the operands in JAX.
        hints: parameters of the primitive that nodes do not have.
        jax_meaning: the function of the primitive on JAX arrays.
    """

    primitive: Any
    kind: str
    types: tuple[Any, ...]
    hints: Mapping[str, Any]
    jax_meaning: Meaning

    def __call__(self, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        if self.primitive.name == "random_gamma":
            return [_compile_once(self.primitive, **params)(*self.to_jax_arrays(args))]
        return [
            graph_numbers(result) for result in self.jax_meaning(self.to_jax_arrays(args), params)
        ]

    def to_jax_arrays(self, args: Sequence[Any]) -> list[Any]:
        """Return the operands in the form that they have in JAX."""
        return [to_jax_array(x, struct) for x, struct in zip(args, self.types, strict=True)]


# ------------------------------------------------------------------------- what a jaxpr reads


def input_value(aval: Any, name: str = "") -> Value:
    return Value(*graph_type(aval), "input", name)


def literal_value(atom: Any) -> Value:
    """Return the value of a literal in a jaxpr."""
    return const(graph_numbers(np.asarray(atom.val, atom.aval.dtype)))


def node_appender(nodes: list[Node]) -> Editor:
    """Return an editor that appends nodes to a list."""
    editor = Editor(Graph([], [], []))
    editor.nodes = nodes
    return editor


def parameter_value(name: str, leaf: Any) -> Value:
    bound = None if isinstance(leaf, jax.ShapeDtypeStruct) else graph_numbers(leaf)
    return Value(*graph_type(leaf), "param", name, bound=bound)


class Constants:
    """Captured arrays: parameters for arrays with a known name, otherwise constants.

    Only floats become parameters. Captured masks and index tables are known during the conversion.
    """

    def __init__(self, named: Sequence[tuple[str, Any]], names: Names) -> None:
        self._names = names
        self._by_id = {id(leaf): name for name, leaf in named}
        self._unmatched = [(name, leaf) for name, leaf in named if isinstance(leaf, np.ndarray)]
        self._values: dict[int, tuple[Value, Any]] = {}  # holds the array, so that its id is unique

    def value(self, array: Any) -> Value:
        if id(array) not in self._values:
            floats = jax.numpy.issubdtype(array.dtype, jax.numpy.inexact)
            name = floats and (self._by_id.get(id(array)) or self._name_by_content(array))
            take = self._names.take
            value = parameter_value(take(name), array) if name else const(graph_numbers(array))
            self._values[id(array)] = value, array
        return self._values[id(array)][0]

    def params(self) -> list[Value]:
        return [value for value, _ in self._values.values() if value.kind == "param"]

    def _name_by_content(self, array: Any) -> str:
        """Return the name of a numpy array by its content, because JAX copies arrays that it
        captures."""
        for i, (name, leaf) in enumerate(self._unmatched):
            have_same_type = leaf.shape == array.shape and leaf.dtype == array.dtype
            if have_same_type and np.array_equal(leaf, np.asarray(array)):
                del self._unmatched[i]
                return name
        return ""
