"""ONNX files in runtimes other than ONNX Runtime, as PyPI distributes them."""
