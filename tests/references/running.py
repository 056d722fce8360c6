"""Functions that run transformers' and Equimo's models on the zoo's leaves."""

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
"""Parts of paths in Equimo's tree, and their replacements in the zoo's."""


def both(
    by_equimo: Callable[..., Arrays], by_transformers: Reference, **names: str
) -> dict[str, dict[str, Reference]]:
    """Return a table `REFERENCES` for models of the zoo with Equimo's names of them."""
    return {
        ours: {"equimo": partial(by_equimo, theirs), "transformers": by_transformers}
        for ours, theirs in names.items()
    }


def common(config: Config) -> dict[str, Any]:
    """Return the settings that transformers' vision transformers share."""
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "patch_size": config.patch_size,
    }


def learned(config: Config) -> dict[str, Any]:
    """Return the shared settings of networks with learned positions, at the size of training."""
    size = config.positions.grid * config.patch_size
    return common(config) | {"layer_norm_eps": config.norm_eps, "image_size": size}


def weights_of(values: Values) -> Weights:
    """Return leaves as if they had been read from a checkpoint."""
    return Weights(LazyArrays(as_file(values)), Provenance("random", seed=1))


def file_state(naming: Naming, values: Values) -> dict[str, np.ndarray]:
    """Return the tensors of a file with this naming."""
    shapes = {path: value.shape for path, value in values.items()}
    items = items_for(naming, values, shapes)
    return {key: np.array(tensor.read()) for key, tensor in items.items()}


def transformers_model(
    kind: Any, settings: Any, naming: Naming, values: Values, unread: tuple[str, ...] = ()
) -> Any:
    """Return a model of transformers with the zoo's leaves, loaded by the names of its files.

    `kind` is the model's class and `settings` its configuration. `unread` are tensors that the
    files may lack because only training reads them.
    """
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
    """Return transformers' model for the class and settings that the zoo would write."""
    import transformers

    library_class = find_transformers_class(config)
    model_class = getattr(transformers, library_class.name)
    labels = {"num_labels": config.classes} if "ImageClassification" in library_class.name else {}
    settings = model_class.config_class(**library_class.settings(config), **labels)
    return transformers_model(model_class, settings, naming, values)


FEATURES = ("last_hidden_state", "pooler_output")
"""Names of the outputs that most models of transformers have."""


def run_transformers(
    model: Any, image: np.ndarray, names: tuple[str, ...] = FEATURES, **call: Any
) -> Arrays:
    """Return the named outputs for an image, without a batch axis.

    `call` are options of the call.
    """
    import torch

    with torch.no_grad():
        result = model(torch.from_numpy(np.array(image)[None]), **call)
    return {name: result[name][0].numpy() for name in names}


def equimo_abstract(name: str, **changes: Any) -> Any:
    """Return Equimo's model of this name, whose leaves are shapes.

    `changes` are arguments of Equimo's constructor.
    """
    from equimo.models import vit

    def build(key: jax.Array) -> Any:
        return getattr(vit, name)(pretrained=False, key=key, **changes)

    # Equimo relies on implicit dtype promotion, which the tests forbid elsewhere.
    with jax.numpy_dtype_promotion("standard"):
        return eqx.filter_eval_shape(build, jax.random.PRNGKey(0))


def equimo_model(name: str, values: Values, **changes: Any) -> Any:
    """Return Equimo's model with the zoo's leaves.

    Each of them must be used, and none be missing.
    """
    unused = dict(values)

    def replace_leaf(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        key = jax.tree_util.keystr(path, simple=True, separator=".")
        for theirs, ours in OURS:
            key = key.replace(theirs, ours)
        if key not in unused:
            key = key.replace("local_pos_embed.freqs", "local_pos_embed.periods")
        value = unused.pop(key, None)
        if value is None:
            assert key.endswith("attn.qkv.bias"), f"the zoo does not have {key}"
            value = np.zeros(leaf.shape)
        return jax.numpy.asarray(value, leaf.dtype).reshape(leaf.shape)

    model = jax.tree_util.tree_map_with_path(replace_leaf, equimo_abstract(name, **changes))
    assert not unused, f"Equimo's model has no leaves {list(unused)}"
    return model


def run_equimo(model: Any, image: np.ndarray, logits: bool = False) -> Arrays:
    """Return the normed tokens, and with `logits` the logits of the classifier."""
    key = jax.random.PRNGKey(0)

    @eqx.filter_jit
    def run(model: Any, x: Any) -> Any:
        tokens = jax.vmap(model.norm)(model.features(x, key=key, inference=True))
        return tokens, model(x, key=key, inference=True) if logits else None

    with jax.numpy_dtype_promotion("standard"):
        tokens, class_logits = run(model, jax.numpy.asarray(image))
    outputs = {"last_hidden_state": np.asarray(tokens)}
    return outputs | ({"logits": np.asarray(class_logits)} if logits else {})
