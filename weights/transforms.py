"""How the tensors in a file become one leaf of a model, and back."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from weights.errors import BadValues
from weights.initializers import Float32, Shape, exact_periods, key_mask


@dataclass(frozen=True)
class Transform:
    """A way between sources and a leaf, one of this module, where it has that `name`.

    `apply` gets the sources' values in the rule's order, `invert` gives them from the leaf's.
    """

    name: str
    apply: Callable[..., Float32]
    invert: Callable[[Float32], tuple[Float32, ...]]

    def __reduce__(self) -> str:
        return self.name  # pickled as the constant that it is


@cache
def shapes_before(transform: Transform, shape: Shape) -> tuple[Shape, ...]:
    """The shape that each source must have, from the leaf's."""
    return tuple(source.shape for source in transform.invert(np.broadcast_to(PLUS_ZERO, shape)))


# Masking by a product leaves -0.0 where a bias was negative, other ways of masking leave 0.0. All
# formats are to give the same bits, so whatever may have been masked gets positive zeros.
PLUS_ZERO = np.float32(0)

SAME = Transform("SAME", lambda values: values, lambda leaf: (leaf,))
BIAS = replace(SAME, name="BIAS", apply=lambda values: values + PLUS_ZERO)
UNBATCH = Transform("UNBATCH", lambda values: values[0], lambda leaf: (leaf[None],))
BATCH = Transform("BATCH", lambda values: values[None], lambda leaf: (leaf[0, ...],))
TRANSPOSED = Transform("TRANSPOSED", lambda values: values.T, lambda leaf: (leaf.T,))
PER_CHANNEL = Transform(
    "PER_CHANNEL", lambda values: values[:, None, None], lambda leaf: (leaf[:, 0, 0],)
)
POINTWISE = Transform(
    "POINTWISE", lambda values: values[..., 0, 0], lambda leaf: (leaf[..., None, None],)
)
# Torch has the channels of a transposed convolution's input first, and turns its kernels around.
DECONVOLUTION = Transform(
    "DECONVOLUTION",
    lambda values: values.swapaxes(0, 1)[..., ::-1, ::-1],
    lambda leaf: (leaf[..., ::-1, ::-1].swapaxes(0, 1),),
)
UNMAP = Transform("UNMAP", lambda values: values[0, 0, 0], lambda leaf: (leaf[None, None, None],))
THIRDS = Transform(
    "THIRDS", lambda *thirds: np.concatenate(thirds), lambda leaf: tuple(np.split(leaf, 3))
)
HALVES = Transform(
    "HALVES", lambda *halves: np.concatenate(halves), lambda leaf: tuple(np.split(leaf, 2))
)
BIAS_THIRDS = replace(
    THIRDS, name="BIAS_THIRDS", apply=lambda *thirds: np.concatenate(thirds) + PLUS_ZERO
)

# Two leaves share one source; each gives its part of it, and zeros for the other's.
FIRST_THIRD = Transform(
    "FIRST_THIRD",
    lambda values: values[: len(values) // 3],
    lambda leaf: (np.concatenate([leaf, np.zeros_like(leaf), np.zeros_like(leaf)]),),
)
LAST_THIRDS = Transform(
    "LAST_THIRDS",
    lambda values: values[len(values) // 3 :],
    lambda leaf: (np.concatenate([np.zeros_like(leaf[: len(leaf) // 2]), leaf]),),
)


def _split_outer(leaf: Float32) -> tuple[Float32, ...]:
    query, key, value = np.split(leaf, 3)
    if key.any():
        raise ValueError("the naming has no place for a bias of the keys")
    return query, value


BIAS_OUTER_THIRDS = Transform(
    "BIAS_OUTER_THIRDS",
    lambda query, value: np.concatenate([query, np.zeros_like(query), value]) + PLUS_ZERO,
    _split_outer,
)


def _unmask(leaf: Float32) -> tuple[Float32, ...]:
    """The bias as it is, under a mask that changes nothing of it."""
    mask = key_mask(leaf.shape)
    return leaf, np.ones_like(leaf) if leaf[mask == 0].any() else mask


MASKED = Transform("MASKED", lambda values, mask: values * mask + PLUS_ZERO, _unmask)


def _never_or_always(probs: Float32) -> Float32:
    if not np.isin(probs, (0, 1)).all():
        raise BadValues(
            "attn_mask_probs are neither zeros nor ones: which queries attend to their masks alone "
            "is drawn at random in this network. Train on until that has faded, or set them to "
            "zeros."
        )
    return probs


NEVER_OR_ALWAYS = Transform("NEVER_OR_ALWAYS", _never_or_always, lambda leaf: (leaf,))


def zeros(shape: Shape) -> Float32:
    """Value of a bias that a file does not have."""
    return np.zeros(shape, np.float32)


def ones(shape: Shape) -> Float32:
    """Value of a norm's weight that a file does not have."""
    return np.ones(shape, np.float32)


def float32_periods(shape: Shape) -> Float32:
    """The rotary periods of a file that holds none, as transformers and timm compute them."""
    return exact_periods(shape[0])
