"""Programs of JAX, in tables by subject: what every judge walks over.

`table` is all of them, `ways` what JAX's transformations make of a program, `tests/conformance.py`
says what a row is. Judges are in `test_programs.py` here, and in other folders.
"""
