"""The networks in Equinox and their configurations. Uses nothing else of ours.

To learn how they work read `vit.py`, which is the whole transformer, then `block.py`,
`attention.py` and `rope.py`; `convnext.py` is a network of its own. Every layer takes numbers and
functions, as those of `equinox.nn` do, and works on one image; `builder.py` makes models from the
configurations of `config.py`, where alone settings have defaults.
"""
