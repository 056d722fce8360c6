"""Values that ONNX has no type for, as ones that it has."""
