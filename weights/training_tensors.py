"""Decide whether tensors that a network does not use could change its answer.

Tensors that no rule covers may have been trained as a part of the answer.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from weights.tensors import FLOATS, LazyTensor


class TrainingRule(NamedTuple):
    """Pattern of the names of tensors that cannot affect an answer, and the reason."""

    pattern: re.Pattern[str]
    reason: str


def _training_rule(pattern: str, reason: str) -> TrainingRule:
    """Return the rule for names in which the pattern matches one or more complete segments between
    dots. `reason` says why such tensors cannot affect an answer."""
    return TrainingRule(re.compile(rf"(?:^|\.)(?:{pattern})(?:\.|$)"), reason)


TRAINING_RULES = (
    _training_rule("mask_token", "takes the place of masked patches in training"),
    _training_rule(r"\w*optim\w*", "state of an optimizer"),
    _training_rule(r"\w*loss\w*|criterion", "part of a loss"),
    _training_rule(r"shadow_params", "means of weights, without names"),
    _training_rule("dino_head|ibot_head", "self-supervised head of DINOv2 and DINOv3"),
    _training_rule(r"decoder_(?:blocks|embed|norm|pred|pos_embed)", "decoder of MAE"),
    _training_rule(r"decoder\.decoder_(?:layers|embed|norm|pred|pos_embed)", "decoder of MAE"),
)
"""Tensors that only training uses, by the names of those who publish them.

Sources: `dinov2/train/ssl_meta_arch.py` of facebookresearch/dinov2, `models_mae.py` of
facebookresearch/mae, `modeling_vit_mae.py` of transformers.
"""

SELF_SUPERVISED = ".last_layer."
"""Part of the keys of the last layer of DINO's and iBOT's projections. No other layer has this
name."""

POOLER = re.compile(r"(?:^|\.)pooler\.dense\.(?:weight|bias)$")
"""The layer after the class token in transformers' `ViTModel` and `DeiTModel`. Their classifiers do
not have it, and `last_hidden_state` does not depend on it."""


def find_training_keys(keys: Iterable[str]) -> set[str]:
    """Return the names of the tensors that only training uses.

    They match one of `TRAINING_RULES`, or belong to a module that has a layer `last_layer`. Such a
    module is a projection for self-supervision.
    """
    keys = [*keys]
    projections = {key.partition(SELF_SUPERVISED)[0] for key in keys if SELF_SUPERVISED in key}
    prefixes = tuple(f"{name}." for name in projections)
    return {
        key
        for key in keys
        if key.startswith(prefixes) or any(rule.pattern.search(key) for rule in TRAINING_RULES)
    }


def may_be_trained(tensor: LazyTensor) -> bool:
    """Return True if a tensor has floats and is not empty, so that training may have changed it."""
    return tensor.dtype in FLOATS and 0 not in tensor.shape


def exclude_harmless_tensors(tensors: Mapping[str, LazyTensor]) -> dict[str, LazyTensor]:
    """Return the unused tensors that could change a network's answer.

    They are the tensors that have floats and are not empty, except those that only training uses
    (see `find_training_keys`). The values of the tensors are not read.

    **Arguments:** `tensors` are the tensors that the network does not use, by name.
    """
    harmless = find_training_keys(tensors)
    return {k: t for k, t in tensors.items() if k not in harmless and may_be_trained(t)}


def has_one_element(tensor: LazyTensor) -> bool:
    """Return True if a tensor has exactly one element."""
    return math.prod(tensor.shape) == 1
