"""Compute the tensors of a file from the leaves of a model, and find leaves without a tensor."""

from collections.abc import Iterable, Mapping
from functools import partial, reduce

import numpy as np

from weights.initializers import Float32
from weights.mapping import LeafPlan, Rule, SourceKey
from weights.tensors import LazyTensor


def find_missing_leaves(plans: Iterable[LeafPlan], file: Mapping[str, LazyTensor]) -> list[str]:
    """Return the paths of the leaves for which a file has no source, in the order of the plans.

    Leaves whose rule has no sources are included. `plans` are the plans of all leaves, and `file`
    has the tensors by key.
    """
    return [
        leaf_plan.target
        for leaf_plan in plans
        if not any(source.key in file for source in leaf_plan.sources)
    ]


def invert(
    plans: Iterable[LeafPlan], leaves: Mapping[str, LazyTensor]
) -> dict[SourceKey, LazyTensor]:
    """Return the tensors of a file in another naming, as float32, by their source. They are
    computed from the leaves of a model when they are read.

    If several leaves share a source, such as the parts of one matrix, its value is the sum of their
    inverse transforms. Optional sources are included.

    **Arguments:**

    - `plans`: the plan of each leaf in the naming.
    - `leaves`: the leaves of the model by path.
    """
    parts: dict[SourceKey, list[tuple[Rule, LazyTensor, int]]] = {}
    for leaf_plan in plans:
        for index, source in enumerate(leaf_plan.sources):
            parts.setdefault(source, []).append((leaf_plan.rule, leaves[leaf_plan.target], index))
    return {
        source: LazyTensor(source.shape, "float32", partial(_sum_sources, shared))
        for source, shared in parts.items()
    }


def _sum_sources(parts: list[tuple[Rule, LazyTensor, int]]) -> Float32:
    """Return the values of one source: the sum of the inverse transforms of the leaves that share
    it.

    An item of `parts` has a leaf's rule, the leaf, and the position of the source among the rule's
    sources.
    """
    return reduce(np.add, (rule.transform.invert(leaf.read())[i] for rule, leaf, i in parts))
