"""Export models as ONNX files or folders of files: request, conversion, precision, verification,
publication."""
