"""Operators of ONNX Runtime on NaN, infinities and the limits of dtypes, compared with JAX."""
