"""Train a depth network on scenes of digits, and measure it."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from notebooks.training.classifier import Recipe, Rows, fit, make_initial_model, normalize_images
from zoo.architectures.base import Network
from zoo.architectures.entry import ModelInfo
from zoo.data.digits.scenes import LARGEST_DIGIT, SMALLEST_DIGIT, Scenes

RECIPE = Recipe(epochs=14, batch=32, rate=2e-3)

INITIAL_BIAS = 0.5
"""Initial value of the last bias. Negative depths are set to zero, where the gradient vanishes."""

MIN_PIXELS = 8
"""Smallest number of visible pixels of a digit that counts."""


@dataclass(frozen=True)
class DepthScore:
    """Quality of a depth network.

    **Arguments:**

    - `error`: mean error of the nearness on digits.
    - `order`: share of the pairs of digits in a scene whose order is right.
    - `there`: share of the pixels that are correctly classified as digit or background.
    """

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
    """Return a trained model and the loss of each step, as `classifier.train` does.

    The loss is the mean absolute error on digits plus that on the background. Most pixels are
    background, so a mean over all pixels would be small for a network that sees nothing.
    """
    init_key, *keys = jr.split(jr.key(seed), 3)
    model = make_initial_model(entry, init_key)
    bias = jnp.full((1, 1, 1), INITIAL_BIAS)
    model = eqx.tree_at(lambda model: model.decoder.conv3.bias, model, bias)
    images, nearness = jnp.asarray(scenes.images), jnp.asarray(scenes.nearness)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        expected = nearness[rows]
        error, is_digit = jnp.abs(predict(model, entry, images[rows]) - expected), expected > 0
        return error.mean(where=is_digit) + error.mean(where=~is_digit)

    return fit(model, objective, len(images), keys, recipe, tell)


def predict(
    model: Network, entry: ModelInfo, images: Float[Array, "n height width"]
) -> Float[Array, "n height width"]:
    """Return the predicted nearness of each pixel."""
    return jax.vmap(model)(normalize_images(images, entry.preprocessing)).predicted_depth


def measure(model: Network, entry: ModelInfo, scenes: Scenes) -> DepthScore:
    """Return the quality of a network on scenes."""
    run = eqx.filter_jit(lambda model, images: predict(model, entry, images))
    predictions = np.asarray(run(model, jnp.asarray(scenes.images)))
    is_digit = scenes.digit_numbers > 0
    is_right: list[bool] = []
    for predicted, digit_numbers in zip(predictions, scenes.digit_numbers, strict=True):
        # The nearer digit has the larger number.
        digits = [
            n for n in range(1, digit_numbers.max() + 1) if (digit_numbers == n).sum() >= MIN_PIXELS
        ]
        means = [predicted[digit_numbers == number].mean() for number in digits]
        is_right += [near > far for far, near in combinations(means, 2)]
    return DepthScore(
        error=float(abs(predictions - scenes.nearness)[is_digit].mean()),
        order=float(np.mean(is_right)),
        there=float(((predictions > SMALLEST_DIGIT / LARGEST_DIGIT / 2) == is_digit).mean()),
    )
