"""Times of files in ONNX Runtime, of matrix products, and the memory that a file needs."""
