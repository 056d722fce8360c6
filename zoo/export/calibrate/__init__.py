"""int8 whose ranges of activations were measured on pictures of somebody's own.

The float32 file runs over the pictures (`observed`), which gives ranges; the file that has them is
measured beside the one that has none (`candidates`), and one of the two is chosen (`choice`).
"""
