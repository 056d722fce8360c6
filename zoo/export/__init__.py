"""ONNX files and folders of them: request, conversion, precision, verification, publication."""
