"""How `equimo_2_orders.json` was made: the leaves of Equimo 2.7.0's models, of two blocks each.

    python tests/golden/make_equimo_2_orders.py tests/golden/equimo_2_orders.json

It needs Python 3.12, the tests run on older ones too.
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


def order(name: str) -> list[str]:
    """Path and shape of every array, one string each."""

    def build(key):
        return getattr(vit, name)(pretrained=False, key=key, depths=[2])

    tree = eqx.filter_eval_shape(build, jax.random.PRNGKey(0))
    return [
        " ".join([jax.tree_util.keystr(path, simple=True, separator="."), *map(str, leaf.shape)])
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
        if isinstance(leaf, jax.ShapeDtypeStruct)
    ]


with open(sys.argv[1], "w") as file:
    json.dump({name: order(name) for name in MODELS}, file, indent=0)
