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
"""Registry entry of each model, by name."""

FAMILY_NAMES = frozenset(model.family for model in MODELS.values())
"""Names of the families of models."""

# All names of models in lower case. Full names take precedence over names without the owner, and
# these over names without timm's tag. If two models share a name, it means the first one.
_FULL_NAMES = [(name.casefold(), model) for model in MODELS.values() for name in model.names]
_OWNERLESS_NAMES = [(name.rpartition("/")[2], model) for name, model in _FULL_NAMES]
_TAGLESS_NAMES = [(name.partition(".")[0], model) for name, model in _OWNERLESS_NAMES]
_BY_NAME = dict(reversed([*_FULL_NAMES, *_OWNERLESS_NAMES, *_TAGLESS_NAMES]))


def list_models(filter: str | None = None) -> list[str]:
    """Return the names of the models, in the order of their families.

    `filter` is a shell pattern that a name has to match, such as `"*vitl*"`. Aliases are not
    compared. None selects all models. The list is empty if no name matches.

    >>> zoo.list_models("dinov3_vits*")
    ['dinov3_vits16', 'dinov3_vits16plus']
    """
    return [name for name in MODELS if filter is None or fnmatch.fnmatchcase(name, filter)]


def select_models(
    names: Sequence[str], all_models: bool, patterns: Sequence[str] = ()
) -> list[str]:
    """Return the names of the models that the words of a command select.

    They are in the order of `names`, or else in that of the registry. A model that is selected
    twice is returned once.

    **Arguments:**

    - `names`: names or aliases of models, names of families, or shell patterns.
    - `all_models`: whether the option for all models was given. With `patterns`, only the models
      that match one of them are selected.
    - `patterns`: shell patterns of the option `--filter`.

    **Raises** `BadRequest` if nothing was given, or names together with one of the options, and
    `UnknownModel` if one of the names matches nothing, or if none of the patterns matches a model.
    """
    if names and (all_models or patterns):
        raise BadRequest(
            f"got {' '.join(names)} and {parameter('all')} or {parameter('filter')}: use only one "
            "of names, all models, or a filter."
        )
    if names:
        return list(dict.fromkeys(model.name for name in names for model in _find_named(name)))
    if not all_models and not patterns:
        raise BadRequest(
            f"no model was named: name one (`zoo list` shows them), or use {parameter('all')} or "
            f"{parameter('filter')}."
        )
    return [model.name for model in find_models(patterns)]


def _find_named(name: str) -> list[ModelInfo]:
    """Return the model with this name or alias, as a list of one.

    If no model has this name, return the models of the family with this name, or those that match
    it as a shell pattern. **Raises** `UnknownModel` if nothing matches.
    """
    entries = [model for model in MODELS.values() if _matches(model, [name])]
    return entries if entries and name.casefold() not in _BY_NAME else [info(name)]


def find_models(patterns: Sequence[str]) -> list[ModelInfo]:
    """Return the models whose name, alias or family matches at least one shell pattern, in the
    order of the registry. Without patterns, return all models.

    **Raises** `UnknownModel`, with similar names in its message, if none matches.
    """
    entries = [model for model in MODELS.values() if not patterns or _matches(model, patterns)]
    if not entries:
        raise UnknownModel(f"no model matches {' or '.join(patterns)}: {_suggest_names(patterns)}")
    return entries


def _matches(model: ModelInfo, patterns: Sequence[str]) -> bool:
    """Return whether the name, an alias or the family of a model matches one of the shell
    patterns."""
    names = (model.name, model.family, *model.aliases)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _suggest_names(texts: Sequence[str]) -> str:
    """Return the end of a message about unknown names: names of models that are similar to one of
    the texts, or how to list all."""
    suggestions: list[str] = []
    for text in texts:
        suggestions += difflib.get_close_matches(text.strip("*").casefold(), _BY_NAME, cutoff=0.5)
    return (
        f"did you mean {', '.join(suggestions)}?" if suggestions else "`zoo list` shows all names."
    )


def info(name: str) -> ModelInfo:
    """Return the registry entry of a model.

    **Arguments:** `name` is the model's name, an alias, or its name on a hub
    (`facebook/dinov2-small`, with or without the owner, or timm's name with or without its tag), in
    lower or upper case.

    **Raises** `UnknownModel`, with similar names in its message, or `BadRequest` if `name` is no
    string.

    >>> zoo.info("facebook/dinov3-vits16-pretrain-lvd1689m").name
    'dinov3_vits16'
    """
    if not isinstance(name, str):
        raise BadRequest(f"got {name!r} for a model: give its name, such as 'dinov3_vits16'.")
    if (entry := _BY_NAME.get(name.casefold())) is None:
        raise UnknownModel(f"there is no model called {name!r}: {_suggest_names([name])}")
    return entry


def is_model_name(name: str) -> bool:
    """Return whether a text is a name of a model, as `info` accepts it, or the name of a family."""
    return name.casefold() in _BY_NAME or name in FAMILY_NAMES


def find_model_or_family(name: str) -> ModelInfo:
    """Return the registry entry of a model, which is found as by `info`. For the name of a family
    that is not also the name of a model, return an entry for the networks of the family that are
    not published.

    **Raises** `UnknownModel` if there is no such model or family.
    """
    first = next((model for model in MODELS.values() if model.family == name), None)
    return info(name) if first is None or name in MODELS else first.as_unpublished


def registered_name(entry: ModelInfo) -> str:
    """Return the name by which the registry knows an entry's model: its own name, or that of its
    family for a custom network."""
    return entry.name if entry.name in MODELS else entry.family


def create(name: str, *, key: PRNGKeyArray | None = None, abstract: bool = False) -> Network:
    """Return a model without pretrained weights, as an Equinox module.

    The model takes one image `[3, H, W]`.

    **Arguments:**

    - `name`: the name or an alias of the model.
    - `key`: random key from which initial parameters are drawn, for training from scratch.
    - `abstract`: whether the leaves are `jax.ShapeDtypeStruct`s, which take no memory. A `key` is
      then not used.

    **Raises** `UnknownModel`, or `ValueError` if neither `key` nor `abstract` is given.

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
