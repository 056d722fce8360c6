"""Keras 3 on JAX: ``stateless_call`` is a function of a layer's variables and its inputs."""

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import keras
from keras import layers

from tests.frameworks.rows import Bound, Row, abstract, draw

FLAT = (("B", 4),)
SEQUENCE = (("B", 5, 4),)
IMAGE = (("B", 9, 7, 4),)
SPACES = {1: (("B", 9, 4),), 2: IMAGE, 3: (("B", 5, 7, 6, 4),)}


def keras_(
    make: Callable[[], Any], call: Callable[..., Any] = lambda layer, *xs: layer(*xs)
) -> Callable[..., Bound]:
    """``make`` gives the layer or model; ``call`` says how it is used."""

    def bind(*inputs: Any) -> Bound:
        given = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in inputs]
        model = keras.Model(given, call(make(), *given))
        kinds = (model.trainable_variables, model.non_trainable_variables)

        def fn(params: Any, *xs: Any) -> Any:
            return model.stateless_call(*params, [*xs], training=False)[0]

        return fn, draw(abstract([[v.value for v in kind] for kind in kinds]))

    return bind


def of(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    return keras_(lambda: layer(*args, **options))


def of_list(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    """A layer that takes its inputs as a list."""
    return keras_(lambda: layer(*args, **options), lambda layer, *xs: layer([*xs]))


def spaces(name: str, *args: Any, fused: dict[str, int] | None = None, **options: Any) -> list[Row]:
    """One row for each number of dimensions, which stands at ``{}`` in the name."""
    return [
        Row(name.format(n), of(vars(layers)[name.format(n)], *args, **options), shape, fused or {})
        for n, shape in SPACES.items()
        if name.format(n) in vars(layers)
    ]
