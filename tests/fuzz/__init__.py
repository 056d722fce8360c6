"""Random programs are converted and compared with JAX: `python -m tests.fuzz --programs 300 --seed
0`.

`tests/forms` draws a program, `judge` compares its file with JAX, `shrink` makes a failing program
small, and `hunt` judges many in worker processes.
"""
