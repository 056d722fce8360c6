"""A fuzzer of files: valid files are changed and then read in a process that is watched.

`python -m pytest -m full --seed 7 tests/files` changes lengths, offsets, types, operations of
pickles and records of archives. Each file has to give its tensors or one sentence, in 5 seconds and
300 MB, and nothing in it may run.
"""
