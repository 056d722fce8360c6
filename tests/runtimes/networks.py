"""Three networks of different kinds, small ones: as files for a target, in every precision."""

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
    """Not square; with learned positions another one than theirs."""
    return 2 * config.stride, 3 * config.stride


def pixels(config: Config, batch: int) -> np.ndarray:
    return np.stack([make_image(seed, *size_of(config)) for seed in range(batch)])


def write(
    folder: Path,
    name: str,
    target: Target,
    signature: Signature,
    precision: Precision = "fp32",
    opset: int | None = None,
) -> Path:
    """A file with seeded weights, which are the same in all."""
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


def right(name: str, images: np.ndarray) -> list[np.ndarray]:
    """What JAX gives."""
    config = NETWORKS[name]
    return [np.asarray(x) for x in jax.tree.leaves(batched(model_of(config), jnp.asarray(images)))]


def furthest(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest error of an output, in parts of its largest number."""
    assert [x.shape for x in found] == [x.shape for x in wanted]
    return max(float(abs(a - b).max() / abs(b).max()) for a, b in zip(found, wanted, strict=True))
