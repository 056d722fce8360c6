"""From a model's leaves to a file's tensors, and what a file says nothing of."""

from collections.abc import Iterable, Mapping
from functools import partial, reduce

import numpy as np

from weights.initializers import Float32
from weights.mapping import LeafPlan, Rule, SourceKey
from weights.tensors import LazyTensor


def filled(plans: Iterable[LeafPlan], file: Mapping[str, LazyTensor]) -> list[str]:
    """Leaves that nothing in the file says anything about."""
    return [item.target for item in plans if not any(source.key in file for source in item.sources)]


def invert(
    plans: Iterable[LeafPlan], leaves: Mapping[str, LazyTensor]
) -> dict[SourceKey, LazyTensor]:
    """The tensors of a file in another naming, from a model's leaves. A source that several leaves
    are parts of is the sum of what each gives."""
    parts: dict[SourceKey, list[tuple[Rule, LazyTensor, int]]] = {}
    for item in plans:
        for index, source in enumerate(item.sources):
            parts.setdefault(source, []).append((item.rule, leaves[item.target], index))
    return {
        source: LazyTensor(source.shape, "float32", partial(_sum, shared))
        for source, shared in parts.items()
    }


def _sum(parts: list[tuple[Rule, LazyTensor, int]]) -> Float32:
    return reduce(np.add, (rule.transform.invert(leaf.read())[i] for rule, leaf, i in parts))
