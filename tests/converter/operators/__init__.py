"""What ONNX Runtime's operators give for NaN, infinities and the ends of a dtype's range."""
