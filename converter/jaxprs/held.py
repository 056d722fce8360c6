"""Arrays as the graph has them: keys as the numbers they hold, complex numbers as pairs."""

from __future__ import annotations

from typing import Any

from converter.complex.pairs import is_complex, packed, real_type, unpacked
from converter.graph.dims import Shape, as_shape
from converter.jaxprs import keys


def held(aval: Any) -> tuple[Shape, Any]:
    """The shape and the dtype that an array has in the graph."""
    if keys.is_key(aval):
        return keys.held(aval)
    shape, dtype = real_type(aval.shape, aval.dtype)
    return as_shape(shape), dtype


def is_held(aval: Any) -> bool:
    """Whether the graph has other numbers in an array's place."""
    return keys.is_key(aval) or is_complex(aval.dtype)


def numbers(array: Any) -> Any:
    """An array as the graph has it."""
    return packed(keys.numbers(array))


def given(array: Any, struct: Any) -> Any:
    """An array of a type, which may be given as the graph has it."""
    if is_complex(struct.dtype):
        return unpacked(array, struct.ndim)
    return keys.keys(array, struct.dtype)
