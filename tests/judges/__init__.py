"""Judges of files other than ONNX Runtime: ONNX's reference evaluator and other runtimes."""
