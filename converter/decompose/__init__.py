"""Expand primitives and types without an ONNX counterpart into the JAX functions that define
them."""
