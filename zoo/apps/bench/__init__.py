"""Measure the speed and memory of ONNX files and compare them."""
