"""What ONNX has no operator or type for, written as the JAX function that says what it means."""
