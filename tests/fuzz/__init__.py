"""Random programs are converted and compared with JAX: `python -m tests.fuzz --programs 300 --seed
0`.

`tests/forms` draws a program, `judge` compares its file with JAX, and `part` judges many and makes
failing ones small, with hypothesis.
"""
