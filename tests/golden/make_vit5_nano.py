"""How `vit5_nano.npz` was made: Equimo 2.7.0 (jax 0.12.0.1, Python 3.12) on seeded weights.

    PYTHONPATH=. python tests/golden/make_vit5_nano.py tests/golden/vit5_nano.npz

Equimo 1.1.0, which the tests can run, rotates other pairs of channels than ViT-5 does. The weights
are `tests.synthetic.make_state` of the leaves' shapes, by our paths; `state_sha256` guards them.
Learned positions are interpolated with antialiasing here, the one way in which Equimo's are ours.
"""

import re
import sys

import equinox as eqx
import jax
import numpy as np
from equimo.vision.models.vit import _VIT5_BASE_CFG, VisionTransformer

from tests.references.running import OURS
from tests.synthetic import digest, make_image, make_state

SEED = 5
SIZES = ((64, 64), (48, 80))

CONFIG = _VIT5_BASE_CFG | {"img_size": 64, "dim": 96, "num_heads": 2, "depths": [2]}
CONFIG |= {"num_classes": 7, "dynamic_img_size": True, "interpolate_antialias": True}


def path_of(path) -> str:
    """The name of Equimo's leaf in our tree."""
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    for theirs, ours in OURS:
        name = name.replace(theirs, ours)
    return name


def outputs(prefix: str, changes: dict, has) -> dict[str, np.ndarray]:
    """Outputs at every size, of seeded weights for the leaves that `has` picks; others are zero."""
    key = jax.random.PRNGKey(0)
    model = VisionTransformer(**CONFIG | changes, key=key)
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    shapes = {path_of(path): leaf.shape for path, leaf in leaves if eqx.is_array(leaf)}
    state = make_state({name: shape for name, shape in shapes.items() if has(name)}, SEED)

    def place(path, leaf):
        values = state.get(path_of(path), 0 * np.asarray(leaf)) if eqx.is_array(leaf) else leaf
        return jax.numpy.asarray(values) if eqx.is_array(leaf) else leaf

    model = jax.tree_util.tree_map_with_path(place, model)
    arrays = {f"{prefix}/state_sha256": digest(state)}
    for height, width in SIZES:
        image = make_image(SEED, height, width)
        tokens = jax.vmap(model.norm)(model.features(image, key=key, inference=True))
        size = f"{prefix}/{height}x{width}"
        arrays[f"{size}/last_hidden_state"] = np.asarray(tokens)
        arrays[f"{size}/logits"] = np.asarray(model(image, key=key, inference=True))
    return arrays


def main(target: str) -> None:
    # The original is Equimo's network with another GELU, another pooling and norms without biases.
    original = {"act_layer": "exactgelu", "global_pool": "token"}
    arrays = outputs("equimo", {}, lambda name: True)
    arrays |= outputs("original", original, lambda name: not re.search(r"norm\.bias$", name))
    np.savez_compressed(target, seed=SEED, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
