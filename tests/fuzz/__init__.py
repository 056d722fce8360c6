"""Random programs are converted and compared with JAX: `python -m tests.fuzz --programs 300 --seed
0`.

`program` defines a program as data. `draw` and `steps` draw one at random, `judge` compares its
file with JAX, `shrink` makes a failing program small, and `hunt` judges many in worker processes.
"""
