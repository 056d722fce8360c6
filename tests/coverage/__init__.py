"""The program that writes `docs/coverage.md`: what the converter does with each primitive of JAX.

    python -m tests.coverage

The primitives are read from JAX and Equinox, and their treatment from the tables of the converter.
Dtypes and operators are measured with the functions of the tests.
"""
