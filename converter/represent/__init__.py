"""Values that ONNX has no type for, as values that it has."""
