"""How a vision transformer is trained on the digits: augmentation, loss, schedule, averaging."""

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
    """How to train: AdamW, warm-up and cosine, smoothed labels, a running mean of the weights.

    `shift` is in pixels, `angle` in degrees, `zoom` a logarithm: a `share` of the images is moved
    by up to these. `average` is how much of the mean a step keeps.
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
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Network, list[float]]:
    """A trained model and the loss of every step. The same arguments give the same bits. `tell`
    hears of every epoch: the steps so far, and the last loss."""
    init_key, *keys = jr.split(jr.key(seed), 3)
    images, labels = grey(digits), jnp.asarray(digits.labels, jnp.int32)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        pixels = normalised(jittered(images[rows], recipe, key), entry.preprocessing)
        return loss(model, pixels, labels[rows], recipe.smoothing)

    return fit(initial(entry, init_key), objective, len(labels), keys, recipe, tell)


def fit(
    initial: Network,
    objective: Callable[[Network, Rows, PRNGKeyArray], Float[Array, ""]],
    count: int,
    keys: Sequence[PRNGKeyArray],
    recipe: Recipe,
    tell: Callable[[int, float], None],
) -> tuple[Network, list[float]]:
    """A model trained on an objective of so many examples, some rows of which are asked for at
    once, and the loss of every step. The two `keys` are for the order and for the objective."""
    order_key, objective_key = keys
    an_epoch = count // recipe.batch
    optimiser = make_optimiser(recipe, recipe.epochs * an_epoch)
    model, static = eqx.partition(initial, eqx.is_array)

    @jax.jit
    def step(model: Network, average: Network, state: Any, rows: Rows, key: PRNGKeyArray) -> Any:
        def value_of(model: Network) -> Float[Array, ""]:
            return objective(eqx.combine(model, static), rows, key)

        value, gradient = jax.value_and_grad(value_of)(model)
        updates, state = optimiser.update(gradient, state, model)
        model = optax.apply_updates(model, updates)
        # Written so that what never changes, the periods, keeps its bits.
        average = jax.tree.map(lambda a, m: a + (1 - recipe.average) * (m - a), average, model)
        return model, average, state, value

    average, state = model, optimiser.init(model)
    losses: list[float] = []
    for epoch in range(recipe.epochs):
        order = np.asarray(jr.permutation(jr.fold_in(order_key, epoch), count))
        for rows in order[: an_epoch * recipe.batch].reshape(an_epoch, recipe.batch):
            key = jr.fold_in(objective_key, len(losses))
            model, average, state, value = step(model, average, state, rows, key)
            losses.append(float(value))
        tell(len(losses), losses[-1])
    return eqx.combine(average, static), losses


def initial(entry: ModelInfo, key: PRNGKeyArray) -> Network:
    """A model to start from. Its rotary periods are rounded to bfloat16, as files hold them."""
    model = build_model(entry.config, name=entry.name, preprocessing=entry.preprocessing, key=key)
    values = leaf_values(model)
    rounded = {path: periods(len(values[path])) for path in values if path.endswith(PERIODS)}
    return bind(model, values | rounded)


def make_optimiser(recipe: Recipe, steps: int) -> optax.GradientTransformation:
    """AdamW that decays matrices only, over so many steps."""
    warmup = min(recipe.warmup, steps // 2)
    rate = optax.warmup_cosine_decay_schedule(0.0, recipe.rate, warmup, steps)
    is_matrix = partial(jax.tree.map, lambda leaf: leaf.ndim > 1)
    decaying = optax.adamw(rate, weight_decay=recipe.decay, mask=is_matrix)
    return optax.chain(optax.clip_by_global_norm(1.0), decaying)


def loss(
    model: Network, pixels: Float[Array, "n 3 H W"], labels: Int[Array, " n"], smoothing: float
) -> Float[Array, ""]:
    """Cross-entropy against smoothed labels, the mean of a batch."""
    logits = jax.vmap(model)(pixels).logits
    assert logits is not None
    targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), smoothing)
    return optax.softmax_cross_entropy(logits, targets).mean()


def grey(digits: Digits) -> Images:
    """One channel, 0 to 1."""
    return jnp.asarray(digits.images[..., 0], jnp.float32) / 255


def normalised(images: Images, how: Preprocessing) -> Float[Array, "n 3 height width"]:
    """What `preprocess` makes of grey images that have the model's own size."""
    return (images[:, None] - per_channel(how.mean)) / per_channel(how.std)


def jittered(images: Images, recipe: Recipe, key: PRNGKeyArray) -> Images:
    """A share of the images turned, scaled and shifted, each by a little of its own."""
    angle = recipe.angle * np.pi / 180
    spread = jnp.array([angle, recipe.zoom, recipe.shift, recipe.shift])
    which, how = jr.split(key)
    draws = jr.uniform(how, (len(images), 4), minval=-spread, maxval=spread)
    # Moving blurs, and what is to be read in the end is not blurred.
    chosen = jr.bernoulli(which, recipe.share, (len(images), 1))
    return jax.vmap(moved)(images, jnp.where(chosen, draws, 0.0))


def moved(
    image: Float[Array, "height width"], by: Float[Array, " 4"]
) -> Float[Array, "height width"]:
    """An image turned by an angle, scaled, and shifted along both axes; 0 where nothing was."""
    cos, sin = jnp.exp(by[1]) * jnp.cos(by[0]), jnp.exp(by[1]) * jnp.sin(by[0])
    matrix = jnp.array([[cos, -sin], [sin, cos]])
    axes = [jnp.arange(side, dtype=jnp.float32) - (side - 1) / 2 for side in image.shape]
    grid = jnp.stack(jnp.meshgrid(*axes, indexing="ij"), axis=-1)
    centre = (jnp.array(image.shape, jnp.float32) - 1) / 2
    rows_and_columns = jnp.moveaxis(grid @ matrix.T + centre + by[2:], -1, 0)
    return jax.scipy.ndimage.map_coordinates(image, list(rows_and_columns), order=1)


def accuracy(model: Network, entry: ModelInfo, digits: Digits) -> float:
    """The share of images whose largest logit is the right one."""
    pixels = normalised(grey(digits), entry.preprocessing)
    logits = eqx.filter_jit(lambda model, x: jax.vmap(model)(x).logits)(model, pixels)
    return float((np.asarray(logits).argmax(axis=-1) == digits.labels).mean())


def save_weights(path: Path, model: Network, entry: ModelInfo) -> None:
    """A safetensors file, in the names of the model's first naming."""
    items = items_for(entry.namings[0], leaf_values(model), leaf_shapes(model))
    write_safetensors(path, items, Quiet())
