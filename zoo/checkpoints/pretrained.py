"""Build a pretrained network from a model name or a checkpoint (`zoo.from_pretrained`)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weights import Checkpoint
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import Choice, GivenCheckpoint, read_weights
from zoo.common.errors import BadRequest
from zoo.common.progress import bar
from zoo.registry.lookup import FAMILY_NAMES, info, is_model_name, registered_name

if TYPE_CHECKING:
    from jax.typing import DTypeLike

    from zoo.architectures.base import Network


def find_entry(name: str | None, choice: Choice) -> tuple[ModelInfo, Choice]:
    """Return the entry of a model, and its weights.

    With a name and a user's checkpoint, the entry describes the network of the checkpoint. Without
    a name, the network is identified from the checkpoint. **Raises** a `ZooError` or a
    `WeightsError`.
    """
    is_user_name = isinstance(choice, GivenCheckpoint) and name == choice.name
    entry = None if name is None or is_user_name or name in FAMILY_NAMES else info(name)
    # Imported here because pydantic, which checks settings, and JAX take time to load.
    if entry is not None:
        from zoo.checkpoints.custom import describe_checkpoint

        return describe_checkpoint(entry, choice)
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
    """A model of the zoo with its weights, as an Equinox module for one image.

    It takes `pixel_values [3, height, width]` (see `zoo.preprocess`) and returns an `Output` with
    `last_hidden_state [tokens, dim]`, `pooler_output [dim]` and, for a classifier,
    `logits [classes]`; `jax.vmap(model)` takes a batch. It knows its own `name` and
    `preprocessing`, so that `zoo.preprocess` and `zoo.to_onnx` need nothing else.

    **Arguments:**

    - `name`: a name (`zoo.list_models()`), an alias, or how a hub calls it, such as
      `facebook/dinov3-vits16-pretrain-lvd1689m`; or the path of a checkpoint, of whatever network
      it is, where nothing is said of `weights`.
    - `weights`: the path of a checkpoint in any format that is read (Meta's `.pth`, Hugging Face
      or timm safetensors, an Equimo archive, `.eqx`, Google's `.npz`); `"auto"` for the usual
      folders and caches and then the hub; `"random"` or `"random:7"` for seeded numbers.
    - `dtype`: of the parameters, such as `jnp.bfloat16`; float32 by default. Rotary periods stay
      float32.
    - `take`: of several networks in a checkpoint, the one to take: a word before its tensors'
      names, such as `"teacher"` or `"ema"`; by default the averaged one.
    - `without_head`: leave out the head on the network, which then gives features alone.
    - `base`: the checkpoint on which an adapter of peft (LoRA) was trained, where `weights` is the
      folder of one.

    **Raises** `UnknownModel`, `BadRequest`, or a `WeightsError` if there are no weights, or if
    they are of something else.

    >>> model = zoo.from_pretrained("dinov3_vits16")
    >>> features = jax.vmap(model)(zoo.preprocess(model, "cat.png")).pooler_output  # [1, 384]
    >>> model = zoo.from_pretrained("finetuned/")  # a folder, as `zoo export --weights finetuned/`
    """
    options = {"take": take, "without_head": without_head, "base": base and Path(base).expanduser()}
    model_name, path = _split_name_and_path(name, os.fspath(weights))
    entry, choice = find_entry(model_name, read_weights(path, **options))
    # A misspelt name should not wait for JAX to load.
    import jax.numpy as jnp

    is_float = dtype is None
    with suppress(TypeError):  # `dtype` is not a dtype
        is_float = is_float or jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    if not is_float:
        raise BadRequest(
            f"dtype {dtype!r} is no floating-point type: give one such as jnp.bfloat16."
        )

    from weights import bind
    from zoo.architectures.builder import abstract
    from zoo.checkpoints.load import open_weights

    with bar() as progress:
        loaded = open_weights(choice, entry, progress)
        values = {
            path: jnp.asarray(value, None if FLOAT32 in path else dtype)
            for path, value in loaded.weights.arrays.items()
        }
    facts = {"preprocessing": entry.preprocessing, "labels": entry.class_names}
    model = abstract(loaded.config, name=registered_name(entry), **facts)
    return bind(model, values)


def _split_name_and_path(
    name: str | os.PathLike[str] | None, weights: str
) -> tuple[str | None, str]:
    """Return a model's name and its weights. If a path was given in place of the name, return None
    and the path."""
    model_name = os.fspath(name) if isinstance(name, os.PathLike) else name
    if not isinstance(model_name, str) or weights != "auto" or is_model_name(model_name):
        return model_name, weights
    return (None, model_name) if Path(model_name).expanduser().exists() else (model_name, weights)
