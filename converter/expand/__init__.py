"""Primitives that have no operator in ONNX, as the JAX functions that say what they mean.

A function here is plain ``jax.lax`` and knows no graph; it is traced in the place of the primitive.
"""

from __future__ import annotations

from converter.expand import (
    bessel,
    beta,
    cholesky,
    devices,
    gamma,
    hurwitz,
    jacobi,
    lu,
    neighbour,
    products,
    qr,
    reduction,
    selection,
    threefry,
    triangular,
    windows,
    wrappers,
)
from converter.expand.registry import find

__all__ = ["find"]
