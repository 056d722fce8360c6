"""Functions of JAX's own that are one operation: a call is one of them where JAX traces the same.

Of ``jnp.linalg.solve`` JAX traces a decomposition with the order of its rows, two triangular
systems and their derivatives. A file that needs none of these has less to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from converter.ir import ops
from converter.ir.op import Op


@dataclass(frozen=True)
class LibraryCall:
    """A function, the operation that it is, and for which operands."""

    function: Callable[..., jax.Array]
    op: Op
    applies: Callable[[Sequence[Any]], bool]


def _is_square(x: Any, above: int) -> bool:
    sizes = x.shape[-2:]
    fixed = len(sizes) == 2 and all(isinstance(size, int) for size in x.shape)
    return fixed and sizes[0] == sizes[1] > above and x.dtype in (jnp.float32, jnp.float64)


def _has_determinant(types: Sequence[Any]) -> bool:
    """JAX itself writes out those of up to three rows."""
    return len(types) == 1 and _is_square(types[0], 3)


def _is_system(types: Sequence[Any]) -> bool:
    if len(types) != 2 or not _is_square(types[0], 0):
        return False
    a, b = types
    fits = b.shape == a.shape[:1] if b.ndim == 1 else b.shape[:-1] == a.shape[:-1]
    return fits and a.dtype == b.dtype and (b.ndim > 1 or a.ndim == 2)


LIBRARY = {
    "det": LibraryCall(jnp.linalg.det, ops.det, _has_determinant),
    "solve": LibraryCall(jnp.linalg.solve, ops.linear_solve, _is_system),
}
"""By the name that JAX gives to the call."""


def library_operation(eqn: Any) -> Op | None:
    """The operation that a call is. Equality of what JAX traces for the function is the proof."""
    if eqn.primitive.name not in ("jit", "pjit"):
        return None
    found = LIBRARY.get(eqn.params["name"])
    types = [v.aval for v in eqn.invars]
    if found is None or not found.applies(types):
        return None
    given = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]
    calls = jax.make_jaxpr(found.function)(*given).eqns
    own, theirs = calls[0].params.get("jaxpr"), eqn.params["jaxpr"]
    same = len(calls) == 1 and (own is theirs or str(own) == str(theirs))
    return found.op if same else None
