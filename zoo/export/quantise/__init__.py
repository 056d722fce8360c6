"""Matrices of eight and of four bits in a file that is otherwise as it was.

A matrix is read three times, and never more than one is in memory: for the factors that even its
rows out (`smooth_quant`), for its scales and what rounding does to the mean result (`correct`), and
when its integers are written. ONNX Runtime's own quantisers hold all of them, several times over.
"""
