"""Who says whether a file is right, other than ONNX Runtime: the standard and another runtime."""
