"""Networks of the zoo, in a folder for each kind or for related kinds.

To learn how they work, read `vit/vit_network.py`, which has the full transformer, and then
`block.py` and `attention.py` in `parts/`. `convnext/` has a different kind of network. As in
`equinox.nn`, every layer takes numbers and functions, and works on one picture. `builder.py` builds
networks from configurations, which are the only place where settings have defaults.
"""
