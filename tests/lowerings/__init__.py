"""Every lowering rule: files with its operation on drawn operands, in ONNX Runtime against JAX.

`operands` draws operands from every kind of source. `prove` converts, runs and compares a program.
`decisions` records which sides of the conditional jumps in `converter/lower` were taken. The other
modules draw programs.
"""
