"""Primitives that have no operator in ONNX, as the JAX functions that say what they mean.

A function here is plain ``jax.lax`` and knows no graph; it is traced in the place of the primitive.
"""
