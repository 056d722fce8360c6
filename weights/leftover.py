"""Tensors of a file that a network does not use: which of them cannot change its answer, and why.

Whatever no rule of this module covers may have been trained as a part of the answer.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from weights.tensors import FLOATS, LazyTensor


class TrainingRule(NamedTuple):
    """Keys of tensors that have no part in an answer, and the reason."""

    pattern: re.Pattern[str]
    reason: str


def _rule(pattern: str, reason: str) -> TrainingRule:
    return TrainingRule(re.compile(rf"(?:^|\.)(?:{pattern})(?:\.|$)"), reason)


TRAINING_RULES = (
    _rule("mask_token", "takes the place of masked patches in training"),
    _rule(r"\w*optim\w*", "state of an optimizer"),
    _rule(r"\w*loss\w*|criterion", "part of a loss"),
    _rule(r"shadow_params", "means of weights, without names"),
    _rule("dino_head|ibot_head", "self-supervised head of DINOv2 and DINOv3"),
    _rule(r"decoder_(?:blocks|embed|norm|pred|pos_embed)", "decoder of MAE"),
    _rule(r"decoder\.decoder_(?:layers|embed|norm|pred|pos_embed)", "decoder of MAE"),
)
"""Tensors that only training uses, by the names of those who publish them.

Sources: `dinov2/train/ssl_meta_arch.py` of facebookresearch/dinov2, `models_mae.py` of
facebookresearch/mae, `modeling_vit_mae.py` of transformers.
"""

SELF_SUPERVISED = ".last_layer."
"""How the last layer of a projection of DINO and iBOT is called, and of nothing else."""

POOLER = re.compile(r"(?:^|\.)pooler\.dense\.(?:weight|bias)$")
"""The layer of transformers' `ViTModel` and `DeiTModel` behind the class token, which no classifier
of theirs has, and which `last_hidden_state` does not pass."""


def used_in_training(keys: Iterable[str]) -> set[str]:
    """Return the keys that a rule of training covers."""
    keys = [*keys]
    projections = {key.partition(SELF_SUPERVISED)[0] for key in keys if SELF_SUPERVISED in key}
    begins = tuple(f"{name}." for name in projections)
    return {
        key
        for key in keys
        if key.startswith(begins) or any(rule.pattern.search(key) for rule in TRAINING_RULES)
    }


def is_trained(tensor: LazyTensor) -> bool:
    """Whether a tensor holds numbers that training may have adjusted: floats, one at least."""
    return tensor.dtype in FLOATS and 0 not in tensor.shape


def may_change_answer(tensors: Mapping[str, LazyTensor]) -> dict[str, LazyTensor]:
    """Return the tensors that no rule covers, of those that a network does not use."""
    harmless = used_in_training(tensors)
    return {k: t for k, t in tensors.items() if k not in harmless and is_trained(t)}


def is_number(tensor: LazyTensor) -> bool:
    """Whether a tensor is one number."""
    return math.prod(tensor.shape) == 1
