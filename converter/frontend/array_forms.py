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
from converter.ir.complex_pairs import is_complex, pack_complex, real_type, unpack_complex
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
    """Return True if a dtype is one of JAX's extended dtypes, such as the dtype of PRNG keys."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def graph_type(aval: Any) -> tuple[Shape, Any]:
    """Return the shape and the dtype that an array of the JAX type ``aval`` has in the graph.

    Keys are uint32 with a last axis for the numbers of a key (two for threefry). Complex numbers
    are real with a last axis of size two. Other arrays keep their type.
    """
    if is_key(aval):
        return (*as_shape(aval.shape), *_key_shape(aval.dtype)), np.dtype(np.uint32)
    shape, dtype = real_type(aval.shape, aval.dtype)
    return as_shape(shape), dtype


@lru_cache
def _key_shape(dtype: Any) -> tuple[int, ...]:
    """Return the shape of the numbers of one key, such as (2,) for threefry.

    Raises:
        UnsupportedError: the dtype is that of a PRNG implementation that is not JAX's own.
    """
    if dtype.name not in KEY_IMPLEMENTATIONS:
        raise UnsupportedError(
            f"keys of dtype {dtype.name} are not among those that JAX has itself; "
            "make them with jax.random.key(seed, impl='threefry2x32')"
        )
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape


def key_numbers(array: Any) -> Any:
    """Return PRNG keys as arrays of their uint32 numbers. Other arrays are returned unchanged."""
    return jax.random.key_data(array) if is_key(array) else array


def to_graph_array(array: Any) -> Any:
    """Return an array in the form that it has in the graph: keys as uint32 numbers, complex numbers
    as real and imaginary parts on a last axis, and other arrays unchanged."""
    return pack_complex(key_numbers(array))


def to_jax_array(array: Any, struct: Any) -> Any:
    """Return an array in the form that it has in JAX.

    Arguments:
        array: an array in that form already, or in the form of the graph: the uint32 numbers of
            keys, or real and imaginary parts on a last axis.
        struct: the JAX type, whose dtype may be that of keys or complex.
    """
    if is_complex(struct.dtype):
        return unpack_complex(array, len(struct.shape))
    if not is_key(struct) or is_key(array):
        return array
    return jax.random.wrap_key_data(array, impl=KEY_IMPLEMENTATIONS[struct.dtype.name])


def special_kind(avals: Iterable[Any]) -> str:
    """Return the name of the dtype of keys, such as ``key<fry>``, or `COMPLEX`, for the first type
    that is of keys or complex numbers. Return "" if there is none."""
    kinds = (
        a.dtype.name if is_key(a) else COMPLEX for a in avals if is_key(a) or is_complex(a.dtype)
    )
    return next(kinds, "")


@lru_cache
def _compile_once(primitive: Any, **params: Any) -> Callable[..., Any]:
    """Return the compiled function of a primitive with these parameters, the same function for the
    same arguments."""
    return jax.jit(partial(primitive.bind, **params))


@dataclass(frozen=True)
class GraphFormFunction:
    """Function of a primitive on keys or complex numbers, applied to arrays in the form of the
    graph.

    A call converts the operands to JAX keys or complex numbers, applies the primitive, and returns
    the results in the form of the graph.

    Arguments:
        primitive: the JAX primitive.
        kind: the dtype name of the keys, or `COMPLEX`, as `special_kind` returns it.
        types: the types of the operands in JAX.
        hints: parameters of the primitive that do not change the result, which nodes do not have.
        jax_meaning: the function of the primitive on JAX arrays.
    """

    primitive: Any
    kind: str
    types: tuple[Any, ...]
    hints: Mapping[str, Any]
    jax_meaning: Meaning

    def __call__(self, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        """Return the results, in the form of the graph, for operands in the form of the graph.
        ``params`` are the parameters of the primitive without hints."""
        if self.primitive.name == "random_gamma":
            return [_compile_once(self.primitive, **params)(*self.to_jax_arrays(args))]
        return [
            to_graph_array(result) for result in self.jax_meaning(self.to_jax_arrays(args), params)
        ]

    def to_jax_arrays(self, args: Sequence[Any]) -> list[Any]:
        """Return the operands as JAX keys or complex numbers."""
        return [to_jax_array(x, struct) for x, struct in zip(args, self.types, strict=True)]


# --------------------------------------------------- inputs, literals and constants of a jaxpr


def new_input(aval: Any, name: str = "") -> Value:
    """Return a new input of a graph for an array of the JAX type ``aval``."""
    return Value(*graph_type(aval), "input", name)


def new_literal(atom: Any) -> Value:
    """Return the constant value of a literal in a jaxpr."""
    return const(to_graph_array(np.asarray(atom.val, atom.aval.dtype)))


def node_appender(nodes: list[Node]) -> Editor:
    """Return an editor that appends its new nodes to this list. The nodes need not belong to a
    graph."""
    editor = Editor(Graph([], [], []))
    editor.nodes = nodes
    return editor


def new_parameter(name: str, leaf: Any) -> Value:
    """Return a new parameter of a graph for an array of a model. The parameter is bound to the
    array's numbers, unless ``leaf`` is abstract (a `jax.ShapeDtypeStruct`)."""
    bound = None if isinstance(leaf, jax.ShapeDtypeStruct) else to_graph_array(leaf)
    return Value(*graph_type(leaf), "param", name, bound=bound)


class Constants:
    """Values for the arrays that a traced function captures, one value for each array.

    A float or complex array that is one of ``named`` becomes a parameter. All others become
    constants: masks and index tables are known during the conversion.

    Arguments:
        named: names and arrays of the models that the function uses.
        names: the names in use; a new parameter gets a number if its name is taken.
    """

    def __init__(self, named: Sequence[tuple[str, Any]], names: Names) -> None:
        self._names = names
        self._by_id = {id(leaf): name for name, leaf in named}
        self._unmatched = [(name, leaf) for name, leaf in named if isinstance(leaf, np.ndarray)]
        # The array is stored with the value, so that no other array can get the same id.
        self._values: dict[int, tuple[Value, Any]] = {}

    def value(self, array: Any) -> Value:
        """Return the value of a captured array, the same one whenever it is called with the same
        object."""
        if id(array) not in self._values:
            floats = jax.numpy.issubdtype(array.dtype, jax.numpy.inexact)
            name = floats and (self._by_id.get(id(array)) or self._name_by_content(array))
            take = self._names.take
            value = new_parameter(take(name), array) if name else const(to_graph_array(array))
            self._values[id(array)] = value, array
        return self._values[id(array)][0]

    def params(self) -> list[Value]:
        """Return the parameters among the values that were requested so far, in this order."""
        return [value for value, _ in self._values.values() if value.kind == "param"]

    def _name_by_content(self, array: Any) -> str:
        """Return the name of a known numpy array with the same numbers, shape and dtype, or "".

        JAX copies the numpy arrays that it captures, so that they cannot be identified by object. A
        known array whose name was returned is not found again.
        """
        for i, (name, leaf) in enumerate(self._unmatched):
            have_same_type = leaf.shape == array.shape and leaf.dtype == array.dtype
            if have_same_type and np.array_equal(leaf, np.asarray(array)):
                del self._unmatched[i]
                return name
        return ""
