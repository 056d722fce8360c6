"""Tasks of networks: the meaning of their outputs, and the answers that are computed from them.

No module here imports JAX.
"""
