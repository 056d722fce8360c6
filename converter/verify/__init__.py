"""Verification of ONNX files by comparing their results with JAX on samples.

A model of rounding errors decides which differences are accepted.
"""
