"""Keras' application networks through the converter: size, layout, and how far from JAX.

    pip install keras
    python benchmarks/keras_networks.py [NAME …]

Each network has seeded weights and statistics, so that its batch norms matter. `error` is the
largest difference from JAX over the largest value, with ONNX Runtime's optimiser on and off.
"""

import os
import sys
import time

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

import converter

NAMES = (
    *("MobileNetV2", "EfficientNetV2B0", "ResNet50V2", "DenseNet121", "ConvNeXtTiny"),
    *("NASNetMobile", "InceptionV3", "Xception"),
)
SHAPE = (96, 96, 3)


def network(name: str) -> keras.Model:
    """With statistics that a trained network could have."""
    rng = np.random.default_rng(0)
    model = getattr(keras.applications, name)(weights=None, input_shape=SHAPE)
    for weight in model.weights:
        if weight.path.endswith(("moving_variance", "gamma")):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif weight.path.endswith(("moving_mean", "beta")):
            weight.assign(rng.normal(0, 0.2, weight.shape))
    return model


def measure(name: str) -> str:
    """One row of the table."""
    model = network(name)
    given = [
        [w.value for w in kind]
        for kind in (model.trainable_variables, model.non_trainable_variables)
    ]

    def fn(params: list[list[jax.Array]], x: jax.Array) -> jax.Array:
        return model.stateless_call(*params, x, training=False)[0]

    began = time.perf_counter()
    export = converter.to_onnx(fn, [("B", *SHAPE)], params=given)
    seconds = time.perf_counter() - began
    x = np.random.default_rng(1).standard_normal((2, *SHAPE)).astype(np.float32)
    wanted = np.asarray(fn(given, x))
    errors = []
    for optimise in (True, False):
        (got,) = converter.session(export, optimise=optimise).run(None, {"x": x})
        errors.append(abs(got - wanted).max() / abs(wanted).max())
    counts = export.report.histogram
    parts = (export.report.nodes, counts.get("Transpose", 0), counts.get("BatchNormalization", 0))
    return f"{name:18}{seconds:8.1f}" + "".join(f"{n:12}" for n in parts) + f"{max(errors):12.1e}"


def main() -> None:
    print(f"{'':18}{'seconds':>8}{'nodes':>12}{'transposes':>12}{'batchnorms':>12}{'error':>12}")
    for name in sys.argv[1:] or NAMES:
        print(measure(name), flush=True)


if __name__ == "__main__":
    main()
