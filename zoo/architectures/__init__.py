"""Networks of the zoo, in a folder for each kind or for related kinds.

To learn how they work read `vit/vit_network.py`, which is the whole transformer, then
`block.py` and `attention.py` in `parts/`; `convnext/` is a network of its own. Every
layer takes numbers and functions, as those of `equinox.nn` do, and works on one image; `builder.py`
makes models from configurations, where alone settings have defaults.
"""
