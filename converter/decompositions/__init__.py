"""Define primitives without an ONNX operator as JAX functions.

The functions are plain ``jax.lax`` and independent of the graph; they are traced in place of the
primitive. "Golub and Van Loan" refers to Matrix Computations, 4th edition, 2013.
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
