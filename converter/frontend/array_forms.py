"""Arrays as the graph has them: keys as the numbers they hold, complex numbers as pairs.

No value of a graph has a key's dtype or a complex one. A node that has to do with them means what
JAX's primitive does to the keys or complex numbers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax

from converter.frontend import key_types
from converter.ir.complex_pairs import is_complex, packed, real_type, unpacked
from converter.ir.dims import Shape, as_shape
from converter.ir.nodes import Meaning

COMPLEX = "complex numbers"


def graph_type(aval: Any) -> tuple[Shape, Any]:
    """The shape and the dtype that an array has in the graph."""
    if key_types.is_key(aval):
        return key_types.key_type(aval)
    shape, dtype = real_type(aval.shape, aval.dtype)
    return as_shape(shape), dtype


def graph_numbers(array: Any) -> Any:
    """An array as the graph has it."""
    return packed(key_types.key_numbers(array))


def given(array: Any, struct: Any) -> Any:
    """An array of a type, which may be given as the graph has it."""
    if is_complex(struct.dtype):
        return unpacked(array, len(struct.shape))
    return key_types.keys(array, struct.dtype)


def key_kind(avals: Iterable[Any]) -> str:
    """The name of the keys' dtype or of complex numbers, where these are among them."""
    found = (a.dtype.name if key_types.is_key(a) else COMPLEX for a in avals if is_held(a))
    return next(found, "")


def is_held(aval: Any) -> bool:
    """Whether the graph has other numbers in an array's place."""
    return key_types.is_key(aval) or is_complex(aval.dtype)


@lru_cache
def _compiled(primitive: Any, **params: Any) -> Callable[..., Any]:
    """Once for all: what JAX does not compile itself it would compile anew each time."""
    return jax.jit(partial(primitive.bind, **params))


@dataclass(frozen=True)
class OfHeld:
    """What a primitive does to keys or complex numbers, as a function of what the graph has.

    ``kind`` is that of ``kind()``, ``types`` are the operands' in JAX, and ``own`` is the
    primitive's own meaning; ``hints`` are its parameters that nodes do not have.
    """

    primitive: Any
    kind: str
    types: tuple[Any, ...]
    hints: Mapping[str, Any]
    own: Meaning

    def __call__(self, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        if self.primitive.name == "random_gamma":
            return [_compiled(self.primitive, **params)(*self.given(args))]
        return [graph_numbers(result) for result in self.own(self.given(args), params)]

    def given(self, args: Sequence[Any]) -> list[Any]:
        """The operands as JAX has them."""
        return [given(x, struct) for x, struct in zip(args, self.types, strict=True)]
