"""One ONNX file: what is asked for, made, lowered, verified and published."""
