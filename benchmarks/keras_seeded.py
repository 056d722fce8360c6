"""Keras' application networks with seeded weights, the same in every process."""

import os
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

NAMES = (
    *("MobileNetV2", "EfficientNetV2B0", "ResNet50V2", "DenseNet121", "ConvNeXtTiny"),
    *("NASNetMobile", "InceptionV3", "Xception"),
)


def network(name: str, size: int) -> Any:
    """For square images, with the statistics and scales that a trained network could have.

    It ends with logits: after a softmax, one class of so large numbers has all of the probability,
    which hides differences.
    """
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    make = getattr(keras.applications, name)
    model = make(weights=None, input_shape=(size, size, 3), classifier_activation=None)
    for weight in model.weights:
        if weight.path.endswith(("moving_variance", "gamma")):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif weight.path.endswith(("moving_mean", "beta")):
            weight.assign(rng.normal(0, 0.2, weight.shape))
    return model
