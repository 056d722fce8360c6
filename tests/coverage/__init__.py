"""What the converter does with each primitive of JAX, as a page: `docs/coverage.md`.

    python -m tests.coverage > docs/coverage.md

Which primitives there are is asked of JAX and Equinox, what becomes of each of the converter's own
tables, and dtypes, operators and tests are measured with the functions of the tests.
"""
