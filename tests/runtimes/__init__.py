"""Files in runtimes other than ONNX Runtime, as people have them from PyPI."""
