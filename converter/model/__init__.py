"""The ONNX model: results, clean-up, half precision, functions, joining, writing."""
