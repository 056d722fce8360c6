"""Every lowering rule on its own: its operation on drawn operands, in ONNX Runtime and in JAX.

`operands` are the ways in which an operand may be made, `prove` runs a program, `decisions` records
which sides of the decisions in `converter/lower` were taken; the other modules draw programs.
"""
