"""int8 whose ranges of activations were measured on pictures of somebody's own.

The float32 file runs twice over the pictures (`observed`), which gives ranges in two ways
(`divergence` has the second); the files that these lead to are measured beside the one that has no
ranges (`candidates`), and one of them is chosen (`choice`).
"""
