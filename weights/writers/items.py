"""From one publisher's checkpoint to another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from weights.distributions import Shape
from weights.mapping import Naming, Out, invert, plan
from weights.namings import meta
from weights.tensors import LazyTensor, Weights
from weights.transforms import zeros
from weights.writers.equimo import bias_keys
from weights.writers.item import Item


def items_for(naming: Naming, weights: Weights, shapes: Mapping[str, Shape]) -> list[Item]:
    """The tensors of a file that uses `naming`, from weights for a model with these leaves."""
    tensors = {
        path: LazyTensor(shape, "float32", partial(weights.arrays.__getitem__, path))
        for path, shape in shapes.items()
    }
    outs = list(invert(plan(naming.rules, shapes), tensors))
    left_out = dispensable(outs)
    items = [
        Item(out.source.key, out.tensor, meta.dtype(out.source.key))
        for out in outs
        if out.source.key not in left_out
    ]
    items += copies(naming, items)
    # Only Equimo has keys that must be there although they hold zeros.
    return with_zero_biases(items) if naming.name == "equimo" and naming.zero else items


def copies(naming: Naming, items: Sequence[Item]) -> list[Item]:
    """The keys of a complete file that only repeat others."""
    tensors = {item.key: item.tensor for item in items}
    return [Item(copy, tensors[key]) for copy, key in naming.repeated(tensors).items()]


def dispensable(outs: Sequence[Out]) -> frozenset[str]:
    """Optional keys, if a reader would fill in the right values for every one of them.

    All or none: a model has a bias in every layer or in no layer.
    """
    optional = [out for out in outs if out.source.optional]
    keys = frozenset(out.source.key for out in optional)
    return keys if all(out.is_dispensable() for out in optional) else frozenset()


def with_zero_biases(items: Sequence[Item]) -> list[Item]:
    """Equimo 1.x cannot leave out the bias of queries, keys and values: give it zeros."""
    keys = {item.key for item in items}
    weights = {item.key: item for item in items if item.key.endswith(".attn.qkv.weight")}
    missing = [key for key in bias_keys(len(weights)) if key not in keys]
    if not missing:
        return list(items)
    shape = next(iter(weights.values())).shape[:1]
    empty = LazyTensor(shape, "float32", lambda: zeros(shape))
    return [*items, *(Item(key, empty) for key in missing)]
