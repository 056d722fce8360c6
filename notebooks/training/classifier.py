"""Train a vision transformer on the digits: augmentation, loss, schedule and averaging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from weights import bind, leaf_shapes, leaf_values
from weights.initializers import periods
from weights.load import PERIODS
from weights.progress import Quiet
from weights.writers.items import items_for
from weights.writers.safetensors_writer import write_safetensors
from zoo.architectures.base import Network
from zoo.architectures.builder import build_model
from zoo.architectures.entry import ModelInfo
from zoo.data.digits.data import Digits
from zoo.images.pixel_values import per_channel
from zoo.images.preprocessing import Preprocessing

Images = Float[Array, "n height width"]  # grey, 0 to 1
Rows = Int[Array, " batch"]


@dataclass(frozen=True)
class Recipe:
    """Settings of the training: AdamW, warm-up and cosine decay, smoothed labels, and a running
    mean of the weights.

    **Arguments:**

    - `average`: factor of the running mean in each step.
    - `shift`, `angle`, `zoom`: largest change of an image, in pixels, in degrees, and as a
      logarithm.
    - `share`: share of the images that are changed.
    """

    epochs: int = 60
    batch: int = 32
    warmup: int = 100
    rate: float = 4e-3
    decay: float = 0.05
    smoothing: float = 0.1
    average: float = 0.995
    shift: float = 0.7
    angle: float = 10.0
    zoom: float = 0.1
    share: float = 0.5


def train(
    entry: ModelInfo,
    digits: Digits,
    seed: int,
    recipe: Recipe,
    tell: Callable[[int, float], None] = lambda step, classification_loss: None,
) -> tuple[Network, list[float]]:
    """Return a trained model and the loss of each step. The same arguments give the same bits.

    `tell` is called after each epoch with the number of steps so far and the last loss.
    """
    init_key, *keys = jr.split(jr.key(seed), 3)
    images, labels = to_grey(digits), jnp.asarray(digits.labels, jnp.int32)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        pixels = normalize_images(augment_images(images[rows], recipe, key), entry.preprocessing)
        return classification_loss(model, pixels, labels[rows], recipe.smoothing)

    return fit(make_initial_model(entry, init_key), objective, len(labels), keys, recipe, tell)


def fit(
    initial_model: Network,
    objective: Callable[[Network, Rows, PRNGKeyArray], Float[Array, ""]],
    count: int,
    keys: Sequence[PRNGKeyArray],
    recipe: Recipe,
    tell: Callable[[int, float], None],
) -> tuple[Network, list[float]]:
    """Return a model trained on an objective, and the loss of each step.

    **Arguments:**

    - `initial_model`: the model before training.
    - `objective`: function of the model, the rows of a batch, and a key.
    - `count`: number of examples.
    - `keys`: one key for the order of the examples and one for the objective.
    - `recipe`: settings.
    - `tell`: as in `train`.
    """
    order_key, objective_key = keys
    steps_of_epoch = count // recipe.batch
    optimiser = make_optimiser(recipe, recipe.epochs * steps_of_epoch)
    model, static = eqx.partition(initial_model, eqx.is_array)

    @jax.jit
    def step(model: Network, average: Network, state: Any, rows: Rows, key: PRNGKeyArray) -> Any:
        def value_of(model: Network) -> Float[Array, ""]:
            return objective(eqx.combine(model, static), rows, key)

        value, gradient = jax.value_and_grad(value_of)(model)
        updates, state = optimiser.update(gradient, state, model)
        model = optax.apply_updates(model, updates)
        # In this form, values that never change, such as the rotary periods, keep their bits.
        average = jax.tree.map(lambda a, m: a + (1 - recipe.average) * (m - a), average, model)
        return model, average, state, value

    average, state = model, optimiser.init(model)
    losses: list[float] = []
    for epoch in range(recipe.epochs):
        order = np.asarray(jr.permutation(jr.fold_in(order_key, epoch), count))
        for rows in order[: steps_of_epoch * recipe.batch].reshape(steps_of_epoch, recipe.batch):
            key = jr.fold_in(objective_key, len(losses))
            model, average, state, value = step(model, average, state, rows, key)
            losses.append(float(value))
        tell(len(losses), losses[-1])
    return eqx.combine(average, static), losses


def make_initial_model(entry: ModelInfo, key: PRNGKeyArray) -> Network:
    """Return a model before training. Its rotary periods are rounded to bfloat16, as in files."""
    model = build_model(entry.config, name=entry.name, preprocessing=entry.preprocessing, key=key)
    values = leaf_values(model)
    rounded = {path: periods(len(values[path])) for path in values if path.endswith(PERIODS)}
    return bind(model, values | rounded)


def make_optimiser(recipe: Recipe, steps: int) -> optax.GradientTransformation:
    """Return AdamW for this number of steps. Only matrices decay."""
    warmup = min(recipe.warmup, steps // 2)
    rate = optax.warmup_cosine_decay_schedule(0.0, recipe.rate, warmup, steps)
    is_matrix = partial(jax.tree.map, lambda leaf: leaf.ndim > 1)
    decaying = optax.adamw(rate, weight_decay=recipe.decay, mask=is_matrix)
    return optax.chain(optax.clip_by_global_norm(1.0), decaying)


def classification_loss(
    model: Network, pixels: Float[Array, "n 3 H W"], labels: Int[Array, " n"], smoothing: float
) -> Float[Array, ""]:
    """Return the mean cross-entropy of a batch against smoothed labels."""
    logits = jax.vmap(model)(pixels).logits
    assert logits is not None
    targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), smoothing)
    return optax.softmax_cross_entropy(logits, targets).mean()


def to_grey(digits: Digits) -> Images:
    """Return the images with one channel, from 0 to 1."""
    return jnp.asarray(digits.images[..., 0], jnp.float32) / 255


def normalize_images(
    images: Images, preprocessing: Preprocessing
) -> Float[Array, "n 3 height width"]:
    """Return the pixel values of grey images that have the model's size, as `preprocess` computes
    them."""
    return (images[:, None] - per_channel(preprocessing.mean)) / per_channel(preprocessing.std)


def augment_images(images: Images, recipe: Recipe, key: PRNGKeyArray) -> Images:
    """Return the images with a share of them rotated, scaled and shifted at random."""
    angle = recipe.angle * np.pi / 180
    limits = jnp.array([angle, recipe.zoom, recipe.shift, recipe.shift])
    selection_key, draw_key = jr.split(key)
    draws = jr.uniform(draw_key, (len(images), 4), minval=-limits, maxval=limits)
    # A change blurs an image, and the images that the model will read are not blurred.
    is_selected = jr.bernoulli(selection_key, recipe.share, (len(images), 1))
    return jax.vmap(transform_image)(images, jnp.where(is_selected, draws, 0.0))


def transform_image(
    image: Float[Array, "height width"], change: Float[Array, " 4"]
) -> Float[Array, "height width"]:
    """Return an image rotated by an angle, scaled, and shifted along both axes. Pixels from outside
    are 0."""
    cos, sin = jnp.exp(change[1]) * jnp.cos(change[0]), jnp.exp(change[1]) * jnp.sin(change[0])
    matrix = jnp.array([[cos, -sin], [sin, cos]])
    axes = [jnp.arange(side, dtype=jnp.float32) - (side - 1) / 2 for side in image.shape]
    grid = jnp.stack(jnp.meshgrid(*axes, indexing="ij"), axis=-1)
    centre = (jnp.array(image.shape, jnp.float32) - 1) / 2
    rows_and_columns = jnp.moveaxis(grid @ matrix.T + centre + change[2:], -1, 0)
    return jax.scipy.ndimage.map_coordinates(image, list(rows_and_columns), order=1)


def accuracy(model: Network, entry: ModelInfo, digits: Digits) -> float:
    """Return the share of images whose largest logit is that of their label."""
    pixels = normalize_images(to_grey(digits), entry.preprocessing)
    logits = eqx.filter_jit(lambda model, x: jax.vmap(model)(x).logits)(model, pixels)
    return float((np.asarray(logits).argmax(axis=-1) == digits.labels).mean())


def save_weights(path: Path, model: Network, entry: ModelInfo) -> None:
    """Write a safetensors file with the names of the model's first naming."""
    items = items_for(entry.namings[0], leaf_values(model), leaf_shapes(model))
    write_safetensors(path, items, Quiet())
