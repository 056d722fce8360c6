"""Primitives that have no operator in ONNX, as the JAX functions that say what they mean.

A function here is plain ``jax.lax`` and knows no graph; it is traced in the place of the primitive.
Golub and Van Loan are those of Matrix Computations, 4th edition, 2013.
"""

from converter.decompositions import (
    computation,
    elimination,
    grouped_products,
    guards,
    jacobi,
    reflections,
    special_functions,
    threefry,
    window_reductions,
)
from converter.decompositions.registered import find_decomposition

__all__ = ["find_decomposition"]
