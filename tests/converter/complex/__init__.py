"""Complex numbers in ONNX files, compared with JAX and numpy."""
