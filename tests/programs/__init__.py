"""Tables of JAX programs, by subject, which several tests convert and compare with JAX.

`table` lists all programs. `ways` applies JAX's transformations to a program.
`tests/conformance.py` defines a row. The tests are in `test_programs.py` here and in other folders.
"""
