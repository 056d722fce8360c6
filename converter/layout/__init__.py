"""Passes that bring axes into the order of ONNX's operators. The graph can still be evaluated in
JAX."""
