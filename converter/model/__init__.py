"""The ONNX model: results, clean-up, half precision, joining, writing."""
