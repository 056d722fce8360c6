"""Is the file right? ONNX Runtime against JAX, on a photograph, at several sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike, NDArray

import converter
from weights import bind
from zoo.entry import ModelInfo
from zoo.models import Model, batched
from zoo.outputs import Output
from zoo.photo import photographs
from zoo.precision import LIMITS, runnable
from zoo.preprocess import preprocess
from zoo.request import Precision, Signature

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

BATCHES = (1, 3)
"""Batch sizes tried where the batch size is open."""

SIDES = ((1.0, 1.0), (0.5, 0.8), (0.7, 1.2), (1.3, 0.6), (1.3, 1.3))
"""Height and width tried where they are open, as multiples of the model's own."""


@dataclass(frozen=True)
class Comparison:
    """How far ONNX Runtime's output is from JAX's, for one output at one batch and image size."""

    batch: int
    height: int
    width: int
    output: str
    max_abs: float
    max_rel: float
    cosine: float


@dataclass(frozen=True)
class Verification:
    """All comparisons, what was asked of them, and whether they all meet it.

    In float32 `measure` is `max_abs`, which `limit` bounds from above; in lower precisions it is
    `cosine`, and `limit` its least value.
    """

    input: str
    measure: str
    limit: float
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
    signature: Signature,
) -> list[Sample]:
    """Run a model in JAX, once for all the files that are exported from it.

    **Arguments:** the registry's entry; the abstract model and the values of its leaves; and
    what the files take and give.
    """
    concrete = bind(model, values)
    run = eqx.filter_jit(partial(batched, layers=signature.layers, as_maps=signature.as_maps))
    samples: list[Sample] = []
    for count, size in shapes(entry, signature):
        pixels = preprocess(photographs(count), entry.preprocessing, size)
        samples.append(Sample(pixels, run(concrete, pixels)))
    return samples


def shapes(entry: ModelInfo, signature: Signature) -> Iterator[tuple[int, tuple[int, int]]]:
    """Batch size and (height, width) of every sample: what is open gets several values."""
    batches = BATCHES if signature.batch is None else (signature.batch,)
    if signature.size is not None:
        return ((batch, signature.size) for batch in batches)
    stride = entry.config.stride
    sides = (
        [
            round(share * side / stride) * stride
            for share, side in zip(shares, entry.native, strict=True)
        ]
        for shares in SIDES
    )
    return zip(itertools.cycle(batches), ((height, width) for height, width in sides))


def verify(file: Path, samples: Sequence[Sample], precision: Precision = "float32") -> Verification:
    """Run an ONNX file on the same photographs and compare with float32 in JAX."""
    live = converter.session(runnable(file, precision))
    comparisons = tuple(item for sample in samples for item in _compare(live, sample))
    limit = LIMITS[precision]
    return Verification(
        input="chelsea.png, preprocessed; mirrored and cropped where the batch is larger",
        measure=limit.measure,
        limit=limit.value,
        passed=all(
            limit.holds(comparison.max_abs, comparison.cosine) for comparison in comparisons
        ),
        comparisons=comparisons,
    )


def _compare(live: InferenceSession, sample: Sample) -> Iterator[Comparison]:
    batch, _, height, width = sample.pixels.shape
    errors = converter.check(live, lambda _: sample.outputs, [sample.pixels])
    for output, error in errors.items():
        yield Comparison(batch, height, width, output, error.max_abs, error.max_rel, error.cosine)
