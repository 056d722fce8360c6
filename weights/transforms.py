"""Transforms of the tensors of a file into a leaf of a model, and back."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from weights.errors import BadValues
from weights.initializers import Float32, Shape, exact_periods, key_mask


@dataclass(frozen=True)
class Transform:
    """Function from the values of a rule's sources to a leaf, with its inverse.

    **Arguments:**

    - `name`: the name of the constant in this module that is this transform.
    - `apply`: takes the values of the sources, in the order of the rule, and returns those of the
      leaf.
    - `invert`: takes the values of the leaf and returns those of the sources.
    """

    name: str
    apply: Callable[..., Float32]
    invert: Callable[[Float32], tuple[Float32, ...]]

    def __reduce__(self) -> str:
        return self.name  # pickled as a reference to the constant of this name


@cache
def shapes_before(transform: Transform, shape: Shape) -> tuple[Shape, ...]:
    """Return the shape that each source of a transform must have, in order, for a leaf of this
    shape."""
    return tuple(source.shape for source in transform.invert(np.broadcast_to(PLUS_ZERO, shape)))


# Masking by a product turns negative biases into -0.0, other ways of masking into 0.0. All formats
# have to give the same bits, so every bias that may have been masked gets positive zeros.
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
# PyTorch stores the input channels of a transposed convolution first, and flips its kernels.
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

# Two leaves share a source. The inverse of each gives its own part and zeros for the other part.
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
    """Return the biases of queries and of values from the bias of queries, keys and values.
    **Raises** `ValueError` if the bias of the keys is not zero."""
    query, key, value = np.split(leaf, 3)
    if key.any():
        raise ValueError("the naming has no tensor for a bias of the keys")
    return query, value


BIAS_OUTER_THIRDS = Transform(
    "BIAS_OUTER_THIRDS",
    lambda query, value: np.concatenate([query, np.zeros_like(query), value]) + PLUS_ZERO,
    _split_outer,
)


def _unmask(leaf: Float32) -> tuple[Float32, ...]:
    """Return a bias unchanged, and a mask whose product with it is the bias: 0 for the keys if
    their bias is zero, and 1 elsewhere."""
    mask = key_mask(leaf.shape)
    return leaf, np.ones_like(leaf) if leaf[mask == 0].any() else mask


MASKED = Transform("MASKED", lambda values, mask: values * mask + PLUS_ZERO, _unmask)


def _check_zeros_or_ones(probs: Float32) -> Float32:
    """Return the probabilities unchanged. **Raises** `BadValues` unless all are 0 or 1."""
    if not np.isin(probs, (0, 1)).all():
        raise BadValues(
            "attn_mask_probs contains values other than 0 and 1: this network decides at random "
            "which queries attend only within their masks. Continue training until the values are "
            "0, or set them to 0."
        )
    return probs


NEVER_OR_ALWAYS = Transform("NEVER_OR_ALWAYS", _check_zeros_or_ones, lambda leaf: (leaf,))


def zeros(shape: Shape) -> Float32:
    """Return zeros, the default values of a bias that a file does not contain."""
    return np.zeros(shape, np.float32)


def ones(shape: Shape) -> Float32:
    """Return ones, the default values of a norm's weight that a file does not contain."""
    return np.ones(shape, np.float32)


def float32_periods(shape: Shape) -> Float32:
    """Return the rotary periods for a file that does not contain them, as transformers and timm
    compute them. `shape` is that of the leaf."""
    return exact_periods(shape[0])
