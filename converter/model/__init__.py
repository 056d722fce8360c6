"""The ONNX model: results of a conversion, clean-up, half precision, joining and writing."""
