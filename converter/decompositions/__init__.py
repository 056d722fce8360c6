"""Primitives that have no operator in ONNX, as the JAX functions that say what they mean.

A function here is plain ``jax.lax`` and knows no graph; it is traced in the place of the primitive.
"""

from __future__ import annotations

from converter.decompositions import (
    bessel,
    beta,
    cholesky,
    collectives,
    gamma,
    generic_reduce,
    hurwitz,
    jacobi,
    linear_systems,
    lu,
    markers,
    nextafter,
    qr,
    ragged_products,
    threefry,
    window_reductions,
    window_selection,
)
from converter.decompositions.registered import find_decomposition

__all__ = ["find_decomposition"]
