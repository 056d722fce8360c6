"""Build a pretrained network from a model name or a checkpoint (`zoo.from_pretrained`)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weights import Checkpoint
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint, WeightsChoice, read_weights
from zoo.common.errors import BadRequest
from zoo.common.progress import progress_bar
from zoo.registry.lookup import FAMILY_NAMES, info, is_model_name, registered_name

if TYPE_CHECKING:
    from jax.typing import DTypeLike

    from zoo.architectures.base import Network


def find_entry(name: str | None, choice: WeightsChoice) -> tuple[ModelInfo, WeightsChoice]:
    """Return the registry entry of the model to load, and its weights.

    With a model name and a user's checkpoint, the entry describes the network of the checkpoint,
    which may have other classes or sizes. With None, the name of a family or the user's own name
    (`choice.name`) in place of a model name, the network is identified from the checkpoint. A
    user's checkpoint is returned open. Other weights are returned unchanged.

    **Raises** a `ZooError` or a `WeightsError` if the name is unknown, if there is neither a name
    nor a checkpoint, or if the checkpoint cannot be used.
    """
    is_user_name = isinstance(choice, GivenCheckpoint) and name == choice.name
    entry = None if name is None or is_user_name or name in FAMILY_NAMES else info(name)
    # Imported here because pydantic, which checks settings, and JAX take time to load.
    if entry is not None:
        from zoo.checkpoints.custom import find_model_in_checkpoint

        return find_model_in_checkpoint(entry, choice)
    if isinstance(choice, GivenCheckpoint | Checkpoint):
        from zoo.checkpoints.identify import identify_checkpoint

        return identify_checkpoint(choice)
    if name is not None:
        return info(name), choice
    raise BadRequest("no model was named: name one; `zoo list` shows them.")


FLOAT32 = "local_pos_embed."
"""Part of the paths of leaves that stay float32: the periods of rotary positions, because their
angles need that precision."""


def from_pretrained(
    name: str | os.PathLike[str] | None,
    weights: str | os.PathLike[str] = "auto",
    *,
    dtype: DTypeLike | None = None,
    take: str = "",
    without_head: bool = False,
    base: str | os.PathLike[str] | None = None,
) -> Network:
    """Return a model of the zoo with its weights, as an Equinox module for one image.

    The model takes `pixel_values [3, height, width]` (see `zoo.preprocess`) and returns an `Output`
    with `last_hidden_state [tokens, dim]`, `pooler_output [dim]` and, for a classifier,
    `logits [classes]`. Use `jax.vmap(model)` for a batch. The model has the attributes `name` and
    `preprocessing`, which `zoo.preprocess` and `zoo.to_onnx` use.

    **Arguments:**

    - `name`: a name (`zoo.list_models()`), an alias, or a name on a hub, such as
      `facebook/dinov3-vits16-pretrain-lvd1689m`. Without `weights` it may also be the path of a
      checkpoint, whose network is identified.
    - `weights`: the path of a checkpoint in any supported format (Meta's `.pth`, safetensors of
      Hugging Face or timm, an Equimo archive, `.eqx`, Google's `.npz`); `"auto"` for the standard
      folders and caches and then the hub; `"random"` or `"random:7"` for random numbers of a seed.
    - `dtype`: the dtype of the parameters, such as `jnp.bfloat16`; float32 by default. Rotary
      periods stay float32.
    - `take`: the network to use if a checkpoint holds several: a word in the prefix of its tensors,
      such as `"teacher"` or `"ema"`. By default the averaged network is used.
    - `without_head`: whether the head is left out, so that the model returns features.
    - `base`: the checkpoint on which an adapter of peft (LoRA) was trained, if `weights` is the
      folder of an adapter.

    **Raises** `UnknownModel`, `BadRequest`, or a `WeightsError` if no weights are found or they
    belong to another network.

    >>> model = zoo.from_pretrained("dinov3_vits16")
    >>> features = jax.vmap(model)(zoo.preprocess(model, "cat.png")).pooler_output  # [1, 384]
    >>> model = zoo.from_pretrained("finetuned/")  # a folder, as `zoo export --weights finetuned/`
    """
    options = {"take": take, "without_head": without_head, "base": base and Path(base).expanduser()}
    model_name, path = _split_name_and_path(name, os.fspath(weights))
    entry, choice = find_entry(model_name, read_weights(path, **options))
    # JAX is imported here, so that a wrong name is reported at once.
    import jax.numpy as jnp

    is_float = dtype is None
    with suppress(TypeError):  # `dtype` is not a dtype
        is_float = is_float or jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    if not is_float:
        raise BadRequest(
            f"dtype {dtype!r} is not a floating-point type: give one such as jnp.bfloat16."
        )

    from weights import bind
    from zoo.architectures.builder import abstract
    from zoo.checkpoints.load import open_weights

    with progress_bar() as progress:
        loaded = open_weights(choice, entry, progress)
        values = {
            path: jnp.asarray(value, None if FLOAT32 in path else dtype)
            for path, value in loaded.weights.arrays.items()
        }
    details = {"preprocessing": entry.preprocessing, "labels": entry.class_names}
    model = abstract(loaded.config, name=registered_name(entry), **details)
    return bind(model, values)


def _split_name_and_path(
    name: str | os.PathLike[str] | None, weights: str
) -> tuple[str | None, str]:
    """Return the model name and the words about its weights.

    `from_pretrained("finetuned/")` passes a path as the name. If `name` is an existing path and not
    a model name, and `weights` is `auto`, return None and the path.
    """
    model_name = os.fspath(name) if isinstance(name, os.PathLike) else name
    if not isinstance(model_name, str) or weights != "auto" or is_model_name(model_name):
        return model_name, weights
    return (None, model_name) if Path(model_name).expanduser().exists() else (model_name, weights)
