"""Write `vit5_nano.npz`: outputs of Equimo 2.7.0 (jax 0.12.0.1, Python 3.12) with seeded weights.

    PYTHONPATH=. python tests/golden/make_vit5_nano.py tests/golden/vit5_nano.npz

Equimo 1.1.0, which the tests can run, rotates other pairs of channels than ViT-5. The weights are
`tests.synthetic.make_state` for the shapes of leaves, by the zoo's paths, and `state_sha256` is
their digest. Learned positions are interpolated with antialiasing, without which Equimo's would
differ from the zoo's.
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


def to_zoo_path(path) -> str:
    """Return the path in the zoo of a leaf of Equimo."""
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    for equimo_name, zoo_name in OURS:
        name = name.replace(equimo_name, zoo_name)
    return name


def compute_outputs(prefix: str, changes: dict, is_seeded) -> dict[str, np.ndarray]:
    """Return the outputs at every size.

    Leaves are seeded if `is_seeded` accepts their path, and zero otherwise.
    """
    key = jax.random.PRNGKey(0)
    model = VisionTransformer(**CONFIG | changes, key=key)
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    shapes = {to_zoo_path(path): leaf.shape for path, leaf in leaves if eqx.is_array(leaf)}
    state = make_state({name: shape for name, shape in shapes.items() if is_seeded(name)}, SEED)

    def to_seeded_leaf(path, leaf):
        values = state.get(to_zoo_path(path), 0 * np.asarray(leaf)) if eqx.is_array(leaf) else leaf
        return jax.numpy.asarray(values) if eqx.is_array(leaf) else leaf

    model = jax.tree_util.tree_map_with_path(to_seeded_leaf, model)
    arrays = {f"{prefix}/state_sha256": digest(state)}
    for height, width in SIZES:
        image = make_image(SEED, height, width)
        tokens = jax.vmap(model.norm)(model.features(image, key=key, inference=True))
        size = f"{prefix}/{height}x{width}"
        arrays[f"{size}/last_hidden_state"] = np.asarray(tokens)
        arrays[f"{size}/logits"] = np.asarray(model(image, key=key, inference=True))
    return arrays


def main(target: str) -> None:
    """Write the file."""
    # The original network differs from Equimo's in its GELU, its pooling and norms without biases.
    original = {"act_layer": "exactgelu", "global_pool": "token"}
    arrays = compute_outputs("equimo", {}, lambda name: True)
    arrays |= compute_outputs(
        "original", original, lambda name: not re.search(r"norm\.bias$", name)
    )
    np.savez_compressed(target, seed=SEED, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
