"""What primitives do to complex numbers, by primitive.

A function takes the operands by position, a ``Pair`` for each that is complex, and the primitive's
parameters by keyword; it gives the result, a ``Pair`` if that is complex, or one for each output.
It owns every parameter, as an expansion does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from converter.decompositions.registered import DecompositionFunction, Expansion, always, read_by


@dataclass(frozen=True)
class ComplexMeaning(Expansion):
    """A function of pairs, or a ``packed`` one of arrays as the graph has them."""

    packed: bool = False


_known: dict[str, ComplexMeaning] = {}


def meaning(
    *primitives: str, ignores: Iterable[str] = (), packed: bool = False
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register a function for one or more primitives; what it ignores is given by name."""

    def register(function: DecompositionFunction) -> DecompositionFunction:
        for primitive in primitives:
            _known[primitive] = ComplexMeaning(
                function, read_by(function), frozenset(ignores), always, packed=packed
            )
        return function

    return register


def find_complex_rule(primitive: str) -> ComplexMeaning | None:
    """What a primitive does to complex numbers."""
    return _known.get(primitive)


def complex_primitives() -> frozenset[str]:
    """Every primitive that complex numbers can be given to."""
    return frozenset(_known) | EACH | BILINEAR | EXPANDED


REAL = " of real numbers"
"""What is added to the name of a primitive whose complex operands are all known to be real."""

EACH = frozenset(
    {
        *("add", "add_any", "broadcast_in_dim", "concatenate", "copy", "copy_p", "cumsum"),
        "device_put",
        *("dynamic_slice", "dynamic_update_slice", "expand_dims", "name", "neg", "pad"),
        *("pvary", "reduce_sum", "reduce_window_sum", "reshape", "rev", "scatter", "scatter-add"),
        *("scatter-sub", "select_n", "slice", "split", "squeeze", "stack", "stop_gradient"),
        *("sub", "tile", "transpose", "unstack"),
    }
)
"""Primitives that do the same to the real and to the imaginary parts, each by themselves."""

SIGNED = frozenset({"neg", "scatter-sub", "sub"})
"""Those of them that may change the sign of a zero."""

BILINEAR = frozenset({"conv_general_dilated", "dot_general", "mul"})
"""Primitives that are products of both operands, or sums of such."""

EXPANDED = frozenset(
    {
        *("cholesky", "eigh", "geqp3", "geqrf", "householder_product", "lu", "ormqr", "qr"),
        *("reduce", "reduce_window", "svd", "triangular_solve", "tridiagonal_solve"),
    }
)
"""Expansions that hold for complex numbers too."""
