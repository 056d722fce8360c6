"""Read pictures and compute `pixel_values`, in numpy and as a part of an ONNX file."""
