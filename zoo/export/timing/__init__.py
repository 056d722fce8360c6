"""Measure times of files in ONNX Runtime and of matrix products, and the memory that a file
needs."""
