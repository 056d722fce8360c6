"""Names to models: list, look up, build."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from weights.parameters import parameter
from zoo.architectures.entry import ModelInfo
from zoo.architectures.published import FAMILIES
from zoo.common.errors import BadRequest, UnknownModel

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from zoo.architectures.base import Network

MODELS: dict[str, ModelInfo] = {model.name: model for family in FAMILIES for model in family}

FAMILY_NAMES = frozenset(model.family for model in MODELS.values())

# Everything that a model may be called, in lower case; of two models the first has a name. Whole
# names count first, then those without the owner in front, then those without timm's tag.
_WHOLE = [(name.casefold(), model) for model in MODELS.values() for name in model.names]
_OWNERLESS = [(name.rpartition("/")[2], model) for name, model in _WHOLE]
_TAGLESS = [(name.partition(".")[0], model) for name, model in _OWNERLESS]
_BY_NAME = dict(reversed([*_WHOLE, *_OWNERLESS, *_TAGLESS]))


def list_models(filter: str | None = None) -> list[str]:
    """Names of the models, by family; `filter` is a shell pattern such as `"*vitl*"`.

    >>> zoo.list_models("dinov3_vits*")
    ['dinov3_vits16', 'dinov3_vits16plus']
    """
    return [name for name in MODELS if filter is None or fnmatch.fnmatchcase(name, filter)]


def select(names: Sequence[str], everything: bool, patterns: Sequence[str] = ()) -> list[str]:
    """The models that a command is about: some by name, family or pattern, or all of them.
    **Raises** `BadRequest` where that is none or not clear, `UnknownModel`."""
    if names and (everything or patterns):
        raise BadRequest(
            f"got {' '.join(names)} and {parameter('all')} or {parameter('filter')}: name models, "
            "or ask for all, or filter."
        )
    if names:
        return list(dict.fromkeys(model.name for name in names for model in _meant(name)))
    if not everything and not patterns:
        raise BadRequest(
            f"no model was named: name one (`zoo list` shows them), or use {parameter('all')} or "
            f"{parameter('filter')}."
        )
    return [model.name for model in fitting(patterns)]


def _meant(name: str) -> list[ModelInfo]:
    """The model of a name, or else those that it fits as a pattern or a family."""
    entries = [model for model in MODELS.values() if _fits(model, [name])]
    return entries if entries and name.casefold() not in _BY_NAME else [info(name)]


def fitting(patterns: Sequence[str]) -> list[ModelInfo]:
    """The models whose name, alias or family fits one of the patterns; all without a pattern.
    **Raises** `UnknownModel` with the nearest names where none does."""
    entries = [model for model in MODELS.values() if not patterns or _fits(model, patterns)]
    if not entries:
        raise UnknownModel(f"no model fits {' or '.join(patterns)}: {_nearest(patterns)}")
    return entries


def _fits(model: ModelInfo, patterns: Sequence[str]) -> bool:
    names = (model.name, model.family, *model.aliases)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _nearest(texts: Sequence[str]) -> str:
    """What to try instead."""
    near: list[str] = []
    for text in texts:
        near += difflib.get_close_matches(text.strip("*").casefold(), _BY_NAME, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else "`zoo list` names them all."


def info(name: str) -> ModelInfo:
    """The entry of a model.

    **Arguments:** its name, an alias, or how a hub calls it (`facebook/dinov2-small`, with or
    without the owner, or timm's name with or without its tag), in lower or upper case.

    **Raises** `UnknownModel` with the nearest names, `BadRequest` for what is no name.

    >>> zoo.info("facebook/dinov3-vits16-pretrain-lvd1689m").name
    'dinov3_vits16'
    """
    if not isinstance(name, str):
        raise BadRequest(f"got {name!r} for a model: give its name, such as 'dinov3_vits16'.")
    if (entry := _BY_NAME.get(name.casefold())) is None:
        raise UnknownModel(f"there is no model called {name!r}: {_nearest([name])}")
    return entry


def is_model_name(name: str) -> bool:
    """Whether a name is that of a model or a family."""
    return name.casefold() in _BY_NAME or name in FAMILY_NAMES


def architecture(name: str) -> ModelInfo:
    """The entry of a model, or one for the networks of a family that are in no table. **Raises**
    `UnknownModel`."""
    first = next((each for each in MODELS.values() if each.family == name), None)
    return info(name) if first is None or name in MODELS else first.as_unpublished


def registered_name(entry: ModelInfo) -> str:
    """Name by which the registry knows a model, or of somebody's own its architecture."""
    return entry.name if entry.name in MODELS else entry.family


def create(name: str, *, key: PRNGKeyArray | None = None, abstract: bool = False) -> Network:
    """A model without its weights, as an Equinox module that takes one image `[3, H, W]`.

    **Arguments:** a name or alias; and a `key`, which draws initial parameters (as for training
    from scratch), or `abstract=True` for leaves that are `jax.ShapeDtypeStruct`s.

    **Raises** `UnknownModel`, or `ValueError` without `key` and `abstract`.

    >>> model = zoo.create("vit_digits", key=jax.random.key(0))
    >>> model = eqx.tree_deserialise_leaves("digits.eqx", zoo.create("vit_digits", abstract=True))
    """
    model = info(name)
    # `zoo list` and `zoo info` must answer at once, so JAX is imported only here.
    from zoo.architectures import builder as models

    if key is None and not abstract:
        raise ValueError(f"create({name!r}) got neither `key` nor `abstract=True`: pass one.")
    how, names = model.preprocessing, model.class_names
    make = models.abstract if key is None or abstract else partial(models.build_model, key=key)
    return make(model.config, name=model.name, preprocessing=how, labels=names)
