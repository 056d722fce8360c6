"""Quantize the matrices of a file to eight or four bits.

A matrix is read three times, and only one is in memory at a time: for the factors that scale its
rows (`smooth_quant`), for its scales and the bias correction (`products.quantise`), and when its
integers are written. ONNX Runtime's own quantizers hold all matrices in memory several times.
"""
