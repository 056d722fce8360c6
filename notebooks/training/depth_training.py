"""How a depth network is trained on scenes of digits, and how right it is."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from notebooks.training.classifier import Recipe, Rows, fit, initial, normalised
from zoo.architectures.base import Network
from zoo.architectures.entry import ModelInfo
from zoo.data.digits.scenes import LARGEST_DIGIT, SMALLEST_DIGIT, Scenes

RECIPE = Recipe(epochs=14, batch=32, rate=2e-3)

BRIGHT = 0.5
"""What the last bias begins with: below it a depth is cut off, and nothing is learnt from it."""

SEEN = 8
"""Pixels that are left of a digit that counts, at least."""


@dataclass(frozen=True)
class DepthScore:
    """The mean error of the nearness where a digit is, of two digits in a scene how often the
    nearer one is said to be, and the share of pixels where it is right whether there is one."""

    error: float
    order: float
    there: float


def train_depth(
    entry: ModelInfo,
    scenes: Scenes,
    seed: int,
    recipe: Recipe = RECIPE,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Network, list[float]]:
    """As `classifier.train`, on the mean absolute error, where digits are and where none
    is to the same share: most pixels are empty, and a network that saw nothing would be right."""
    init_key, *keys = jr.split(jr.key(seed), 3)
    model = initial(entry, init_key)
    bias = jnp.full((1, 1, 1), BRIGHT)
    model = eqx.tree_at(lambda model: model.decoder.conv3.bias, model, bias)
    images, nearness = jnp.asarray(scenes.images), jnp.asarray(scenes.nearness)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        wanted = nearness[rows]
        error, on = jnp.abs(predict(model, entry, images[rows]) - wanted), wanted > 0
        return error.mean(where=on) + error.mean(where=~on)

    return fit(model, objective, len(images), keys, recipe, tell)


def predict(
    model: Network, entry: ModelInfo, images: Float[Array, "n height width"]
) -> Float[Array, "n height width"]:
    """How near a network says everything is."""
    return jax.vmap(model)(normalised(images, entry.preprocessing)).predicted_depth


def measure(model: Network, entry: ModelInfo, scenes: Scenes) -> DepthScore:
    """How right a network is."""
    run = eqx.filter_jit(lambda model, images: predict(model, entry, images))
    found = np.asarray(run(model, jnp.asarray(scenes.images)))
    on = scenes.digit_numbers > 0
    right: list[bool] = []
    for predicted, which in zip(found, scenes.digit_numbers, strict=True):
        # The nearer has the larger number.
        numbers = [n for n in range(1, which.max() + 1) if (which == n).sum() >= SEEN]
        means = [predicted[which == number].mean() for number in numbers]
        right += [near > far for far, near in combinations(means, 2)]
    return DepthScore(
        error=float(abs(found - scenes.nearness)[on].mean()),
        order=float(np.mean(right)),
        there=float(((found > SMALLEST_DIGIT / LARGEST_DIGIT / 2) == on).mean()),
    )
