"""List, look up and build models by name."""

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

# All names of models in lower case. Full names take precedence over names without the owner, and
# these over names without timm's tag. If two models share a name, it means the first one.
_FULL_NAMES = [(name.casefold(), model) for model in MODELS.values() for name in model.names]
_OWNERLESS_NAMES = [(name.rpartition("/")[2], model) for name, model in _FULL_NAMES]
_TAGLESS_NAMES = [(name.partition(".")[0], model) for name, model in _OWNERLESS_NAMES]
_BY_NAME = dict(reversed([*_FULL_NAMES, *_OWNERLESS_NAMES, *_TAGLESS_NAMES]))


def list_models(filter: str | None = None) -> list[str]:
    """Return the names of the models, by family. `filter` is a shell pattern such as `"*vitl*"`.

    >>> zoo.list_models("dinov3_vits*")
    ['dinov3_vits16', 'dinov3_vits16plus']
    """
    return [name for name in MODELS if filter is None or fnmatch.fnmatchcase(name, filter)]


def select_models(
    names: Sequence[str], everything: bool, patterns: Sequence[str] = ()
) -> list[str]:
    """Return the names of the models that a command was given: by name, family or pattern, or all.

    **Raises** `BadRequest` if no model or contradictory options were given, or `UnknownModel`.
    """
    if names and (everything or patterns):
        raise BadRequest(
            f"got {' '.join(names)} and {parameter('all')} or {parameter('filter')}: use only one "
            "of names, all models, or a filter."
        )
    if names:
        return list(dict.fromkeys(model.name for name in names for model in _find_named(name)))
    if not everything and not patterns:
        raise BadRequest(
            f"no model was named: name one (`zoo list` shows them), or use {parameter('all')} or "
            f"{parameter('filter')}."
        )
    return [model.name for model in find_models(patterns)]


def _find_named(name: str) -> list[ModelInfo]:
    """Return the model of a name.

    If there is none, return the models that match it as a pattern or family.
    """
    entries = [model for model in MODELS.values() if _matches(model, [name])]
    return entries if entries and name.casefold() not in _BY_NAME else [info(name)]


def find_models(patterns: Sequence[str]) -> list[ModelInfo]:
    """Return the models whose name, alias or family matches a pattern; all without patterns.

    **Raises** `UnknownModel` with the nearest names if none matches.
    """
    entries = [model for model in MODELS.values() if not patterns or _matches(model, patterns)]
    if not entries:
        raise UnknownModel(f"no model matches {' or '.join(patterns)}: {_suggest_names(patterns)}")
    return entries


def _matches(model: ModelInfo, patterns: Sequence[str]) -> bool:
    names = (model.name, model.family, *model.aliases)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _suggest_names(texts: Sequence[str]) -> str:
    """Return a hint with names that are similar to one of the texts."""
    suggestions: list[str] = []
    for text in texts:
        suggestions += difflib.get_close_matches(text.strip("*").casefold(), _BY_NAME, cutoff=0.5)
    return (
        f"did you mean {', '.join(suggestions)}?" if suggestions else "`zoo list` shows all names."
    )


def info(name: str) -> ModelInfo:
    """Return the entry of a model.

    **Arguments:** `name` is the model's name, an alias, or its name on a hub
    (`facebook/dinov2-small`, with or without the owner, or timm's name with or without its tag), in
    lower or upper case.

    **Raises** `UnknownModel` with the nearest names, or `BadRequest` if `name` is no string.

    >>> zoo.info("facebook/dinov3-vits16-pretrain-lvd1689m").name
    'dinov3_vits16'
    """
    if not isinstance(name, str):
        raise BadRequest(f"got {name!r} for a model: give its name, such as 'dinov3_vits16'.")
    if (entry := _BY_NAME.get(name.casefold())) is None:
        raise UnknownModel(f"there is no model called {name!r}: {_suggest_names([name])}")
    return entry


def is_model_name(name: str) -> bool:
    """Return whether a name is that of a model or a family."""
    return name.casefold() in _BY_NAME or name in FAMILY_NAMES


def architecture(name: str) -> ModelInfo:
    """Return the entry of a model, or for a family the entry of its unlisted networks.

    **Raises** `UnknownModel`.
    """
    first = next((model for model in MODELS.values() if model.family == name), None)
    return info(name) if first is None or name in MODELS else first.as_unpublished


def registered_name(entry: ModelInfo) -> str:
    """Return the name of a model in the registry. For a custom network, return its family."""
    return entry.name if entry.name in MODELS else entry.family


def create(name: str, *, key: PRNGKeyArray | None = None, abstract: bool = False) -> Network:
    """Return a model without its weights, as an Equinox module that takes one image `[3, H, W]`.

    **Arguments:** `name` is a name or alias. `key` draws initial parameters, for training from
    scratch. `abstract=True` makes the leaves `jax.ShapeDtypeStruct`s.

    **Raises** `UnknownModel`, or `ValueError` without `key` and `abstract`.

    >>> model = zoo.create("vit_digits", key=jax.random.key(0))
    >>> model = eqx.tree_deserialise_leaves("digits.eqx", zoo.create("vit_digits", abstract=True))
    """
    model = info(name)
    # JAX is imported only here, so that `zoo list` and `zoo info` answer at once.
    from zoo.architectures import builder as models

    if key is None and not abstract:
        raise ValueError(f"create({name!r}) got neither `key` nor `abstract=True`: pass one.")
    preprocessing, names = model.preprocessing, model.class_names
    make = models.abstract if key is None or abstract else partial(models.build_model, key=key)
    return make(model.config, name=model.name, preprocessing=preprocessing, labels=names)
