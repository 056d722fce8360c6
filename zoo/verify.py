"""Is the file right? ONNX Runtime against JAX, on a photograph, at two batch sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

import converter
from weights import bind
from zoo.entry import ModelInfo
from zoo.models import Model
from zoo.outputs import Output
from zoo.photo import photographs
from zoo.preprocess import preprocess

TOLERANCE = 1e-4
"""Largest absolute difference that float32 rounding explains, in outputs of unit size."""

BATCHES = (1, 3)
"""Batch sizes tried where the batch size is open."""


@dataclass(frozen=True)
class Comparison:
    """How far ONNX Runtime's output is from JAX's, for one output at one batch size."""

    batch: int
    output: str
    max_abs: float
    max_rel: float
    cosine: float


@dataclass(frozen=True)
class Verification:
    """All comparisons, what was asked of them, and whether they all meet it."""

    input: str
    tolerance: float
    passed: bool
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Sample:
    """Preprocessed photographs and what the model makes of them in JAX."""

    pixels: NDArray[np.float32]
    outputs: Output


def reference(
    entry: ModelInfo,
    model: Model,
    values: Mapping[str, ArrayLike],
    size: tuple[int, int],
    batch: int | None,
) -> list[Sample]:
    """Run a model in JAX, once for all the files that are exported from it.

    **Arguments:** the registry's entry; the abstract model and the values of its leaves;
    (height, width); and the batch size, or None where the file leaves it open.
    """
    concrete = bind(model, values)
    run = eqx.filter_jit(lambda model, pixels: jax.vmap(model)(pixels))
    samples: list[Sample] = []
    for count in BATCHES if batch is None else (batch,):
        pixels = preprocess(photographs(count), entry.preprocessing, size)
        samples.append(Sample(pixels, run(concrete, pixels)))
    return samples


def verify(file: Path, samples: Sequence[Sample]) -> Verification:
    """Run an ONNX file on the same photographs and compare."""
    comparisons = tuple(
        Comparison(len(sample.pixels), output, errors.max_abs, errors.max_rel, errors.cosine)
        for sample in samples
        for output, errors in _check(file, sample).items()
    )
    return Verification(
        input="chelsea.png, preprocessed; mirrored and cropped where the batch is larger",
        tolerance=TOLERANCE,
        # Not `any(… > …)`: a NaN must fail.
        passed=all(comparison.max_abs <= TOLERANCE for comparison in comparisons),
        comparisons=comparisons,
    )


def _check(file: Path, sample: Sample) -> dict[str, converter.Errors]:
    return converter.check(file, lambda _: sample.outputs, [sample.pixels])
