"""How transformers' and Equimo's models are made to run on our leaves."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tests.references import Arrays, Reference
from tests.seeded import as_file
from weights.mapping import Naming
from weights.tensors import LazyArrays, Provenance, Weights
from weights.writers.items import items_for
from zoo.architectures.architecture import Config
from zoo.checkpoints.settings.library_configs import find_transformers_class

Values = Mapping[str, np.ndarray]

OURS = (
    ("blocks.0.blocks.", "blocks."),
    ("patch_rope.freqs", "freqs"),
    ("reg_rope.freqs", "reg_freqs"),
)
"""Paths in Equimo's tree that are called differently in ours."""


def both(
    by_equimo: Callable[..., Arrays], by_transformers: Reference, **names: str
) -> dict[str, dict[str, Reference]]:
    """`REFERENCES` of models that Equimo calls by these names."""
    return {
        ours: {"equimo": partial(by_equimo, theirs), "transformers": by_transformers}
        for ours, theirs in names.items()
    }


def common(config: Config) -> dict[str, Any]:
    """What transformers' configurations of vision transformers share."""
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "patch_size": config.patch_size,
    }


def learned(config: Config) -> dict[str, Any]:
    """The same where positions are learned, at the size of training."""
    size = config.positions.grid * config.patch_size
    return common(config) | {"layer_norm_eps": config.norm_eps, "image_size": size}


def weights_of(values: Values) -> Weights:
    """Leaves as a checkpoint gives them."""
    return Weights(LazyArrays(as_file(values)), Provenance("random", seed=1))


def file_state(naming: Naming, values: Values) -> dict[str, np.ndarray]:
    """The tensors of a file with these names."""
    shapes = {path: value.shape for path, value in values.items()}
    found = items_for(naming, values, shapes)
    return {key: np.array(tensor.read()) for key, tensor in found.items()}


def transformers_model(
    kind: Any, settings: Any, naming: Naming, values: Values, unread: tuple[str, ...] = ()
) -> Any:
    """A model of transformers with our leaves, by the names of its files, which may lack what only
    training reads."""
    import torch

    state = {key: torch.from_numpy(value) for key, value in file_state(naming, values).items()}
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    model, report = kind.from_pretrained(
        None, config=settings, state_dict=state, output_loading_info=True
    )
    logger.setLevel(level)
    assert {*report["missing_keys"]} <= {*unread} and not report["unexpected_keys"], report
    return model.eval()


def by_settings(naming: Naming, config: Config, values: Values) -> Any:
    """The same of the class and the settings that the zoo writes for a configuration."""
    import transformers

    made = find_transformers_class(config)
    kind = getattr(transformers, made.name)
    labels = {"num_labels": config.classes} if "ImageClassification" in made.name else {}
    settings = kind.config_class(**made.settings(config), **labels)
    return transformers_model(kind, settings, naming, values)


FEATURES = ("last_hidden_state", "pooler_output")


def run_transformers(
    model: Any, image: np.ndarray, names: tuple[str, ...] = FEATURES, **call: Any
) -> Arrays:
    """Outputs of those names, without the batch axis."""
    import torch

    with torch.no_grad():
        result = model(torch.from_numpy(np.array(image)[None]), **call)
    return {name: result[name][0].numpy() for name in names}


def equimo_abstract(name: str, **changes: Any) -> Any:
    """Equimo's model of that name, its leaves shapes; `changes` are settings other than its own."""
    from equimo.models import vit

    def build(key: jax.Array) -> Any:
        return getattr(vit, name)(pretrained=False, key=key, **changes)

    # Equimo's dtype promotions are its own business.
    with jax.numpy_dtype_promotion("standard"):
        return eqx.filter_eval_shape(build, jax.random.PRNGKey(0))


def equimo_model(name: str, values: Values, **changes: Any) -> Any:
    """The same with our leaves in its tree, none left over and none missing."""
    left = dict(values)

    def place(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        key = jax.tree_util.keystr(path, simple=True, separator=".")
        for theirs, ours in OURS:
            key = key.replace(theirs, ours)
        if key not in left:
            key = key.replace("local_pos_embed.freqs", "local_pos_embed.periods")
        value = left.pop(key, None)
        if value is None:
            assert key.endswith("attn.qkv.bias"), f"Equimo wants {key}"
            value = np.zeros(leaf.shape)
        return jax.numpy.asarray(value, leaf.dtype).reshape(leaf.shape)

    model = jax.tree_util.tree_map_with_path(place, equimo_abstract(name, **changes))
    assert not left, f"Equimo has no place for {list(left)}"
    return model


def run_equimo(model: Any, image: np.ndarray, logits: bool = False) -> Arrays:
    """The normed tokens, and the classifier's logits where asked for."""
    key = jax.random.PRNGKey(0)

    @eqx.filter_jit
    def run(model: Any, x: Any) -> Any:
        tokens = jax.vmap(model.norm)(model.features(x, key=key, inference=True))
        return tokens, model(x, key=key, inference=True) if logits else None

    with jax.numpy_dtype_promotion("standard"):
        tokens, scores = run(model, jax.numpy.asarray(image))
    found = {"last_hidden_state": np.asarray(tokens)}
    return found | ({"logits": np.asarray(scores)} if logits else {})
