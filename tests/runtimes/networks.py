"""Three small networks of different architectures, as files for each target and precision."""

from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import zoo
from tests.seeded import model_of, nano, values_of
from tests.synthetic import make_image
from zoo.architectures.architecture import Config
from zoo.architectures.builder import abstract, batched
from zoo.artifacts.choices import Precision, Target
from zoo.export.make import convert_model
from zoo.export.precision import write_lower_precision
from zoo.export.request import Signature

NETWORKS: Mapping[str, Config] = {
    "vit_digits": zoo.info("vit_digits").config,
    "dinov3_vit": nano(zoo.info("dinov3_vits16").config),
    "dinov3_convnext": nano(zoo.info("dinov3_convnext_tiny").config),
}


def size_of(config: Config) -> tuple[int, int]:
    """Return an image size that is not square, and not that of learned position embeddings."""
    return 2 * config.stride, 3 * config.stride


def pixels(config: Config, batch: int) -> np.ndarray:
    """Return a batch of synthetic images."""
    return np.stack([make_image(seed, *size_of(config)) for seed in range(batch)])


def write(
    folder: Path,
    name: str,
    target: Target,
    signature: Signature,
    precision: Precision = "fp32",
    opset: int | None = None,
) -> Path:
    """Write a file of a network and return its path. All files have the same seeded weights."""
    config = NETWORKS[name]
    file = folder / f"{name}-{target}-{opset}-{precision}.onnx"
    export = convert_model(abstract(config), opset, signature, target=target)
    export.save(file, values_of(config))
    if precision != "fp32":
        source = file.rename(file.with_suffix(".source"))
        write_lower_precision(
            source, file, precision, [pixels(config, signature.batch or 1)], None, target
        )
    return file


def jax_outputs(name: str, images: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of a network in JAX."""
    config = NETWORKS[name]
    return [np.asarray(x) for x in jax.tree.leaves(batched(model_of(config), jnp.asarray(images)))]


def furthest(actual: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest error of the outputs, each relative to its largest number."""
    assert [x.shape for x in actual] == [x.shape for x in expected]
    return max(
        float(abs(a - b).max() / abs(b).max()) for a, b in zip(actual, expected, strict=True)
    )
