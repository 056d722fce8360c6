"""Random programs through the whole converter: `python -m tests.fuzz --programs 300 --seed 0`.

`program` is what a program is, `draw` and `steps` make one at random, `judge` says what
became of it, `shrink` makes a failing one small, `hunt` runs many.
"""
