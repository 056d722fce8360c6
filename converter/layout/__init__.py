"""Passes that transpose operands to the layouts of ONNX operators.

The graph can still be evaluated in JAX.
"""
