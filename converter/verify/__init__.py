"""Verification of ONNX files against JAX: samples, sessions, and a model of rounding errors."""
