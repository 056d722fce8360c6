"""Values that ONNX has no type for, against JAX and numpy."""
