"""A fuzzer of files: valid ones with something changed, read in a process that is watched.

`python -m tests.files --format pth --mutations 1000 --seed 7` changes small valid files where it
hurts (lengths, offsets, types, operations of a pickle, records of an archive) and reads them. Each
must give its tensors or one sentence, in 5 seconds and 300 MB, and nothing in it may run.
"""
