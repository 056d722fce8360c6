"""Rewrite operations that the target does not support or does not define.

These are indices out of bounds, divisions by zero, dtypes without kernels, and deviations.
"""
