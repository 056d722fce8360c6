"""Write `equimo_2_orders.json`: the leaves of Equimo 2.7.0's models with two blocks, in order.

    python tests/golden/make_equimo_2_orders.py tests/golden/equimo_2_orders.json

Equimo 2.7.0 needs Python 3.12. The tests also run in older versions.
"""

import json
import sys

import equinox as eqx
import jax
from equimo.vision.models import vit

MODELS = (
    *("dinov2_vits14", "dinov2_vits14_reg", "dinov2_vitg14_reg"),
    *("dinov3_vits16_pretrain_lvd1689m", "dinov3_vit7b16_pretrain_lvd1689m"),
    *("tips_vits14_hr", "eupe_vitt16", "siglip2_vitb16_224", "vit_tiny_patch16_224", "vit5_small"),
)


def list_leaves(name: str) -> list[str]:
    """Return a string with path and shape for every array of a model."""

    def build(key):
        return getattr(vit, name)(pretrained=False, key=key, depths=[2])

    tree = eqx.filter_eval_shape(build, jax.random.PRNGKey(0))
    return [
        " ".join([jax.tree_util.keystr(path, simple=True, separator="."), *map(str, leaf.shape)])
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
        if isinstance(leaf, jax.ShapeDtypeStruct)
    ]


with open(sys.argv[1], "w") as file:
    json.dump({name: list_leaves(name) for name in MODELS}, file, indent=0)
