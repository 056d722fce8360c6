"""The numbers of a site: a row for each ONNX file, from its manifest and from measurements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from weights.progress import Progress
from zoo.apps.site.folders import BuiltFolder
from zoo.artifacts.measured import is_busy, worst
from zoo.artifacts.schema import Manifest, Variant
from zoo.common.runtime import VERSION
from zoo.export.timing.footprint import footprint
from zoo.export.timing.rounds import machine
from zoo.export.timing.timed_inputs import OPEN_WORDS, Spec
from zoo.export.timing.timed_products import timed_products

FORMAT = "jax-onnx-zoo site"

THREADS = 1
"""The number of threads of the runs whose memory is measured. The times in manifests have as
many."""


@dataclass(frozen=True)
class CatalogueRow:
    """One ONNX file. Values that were not measured are None.

    - `random`: whether the weights are random.
    - `error`: the largest absolute difference of any output from JAX.
    - `cosine`: the least cosine similarity of any output to JAX.
    - `p50_ms`: the median time of a run. It is too long if the machine was `busy` with other
      programs.
    - `ratio`: how many times faster than `fp32` the file is.
    - `multiply_adds`: those of matrix products and convolutions, for one image of the timed size.
    - `uncounted`: the number of further products, whose sizes only a run would tell.
    """

    model: str
    variant: str
    file: str
    family: str
    precision: str
    opset: int
    parameters: int
    bytes: int
    input: str
    licence: str
    random: bool
    error: float | None
    cosine: float | None
    p50_ms: float | None = None
    busy: bool = False
    ratio: float | None = None
    multiply_adds: int | None = None
    uncounted: int = 0
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Catalogue:
    """All rows, and the runtime and machine with which their peak memory was measured."""

    runtime: str
    machine: str
    rows: Sequence[CatalogueRow]


def catalogue(models: Sequence[BuiltFolder], progress: Progress) -> Catalogue:
    """Return the rows of all files, after their memory was measured.

    **Raises** `BadFile` for a file whose process dies.
    """
    return Catalogue(
        runtime=f"{VERSION}, CPU, {THREADS} thread",
        machine=machine(),
        rows=[row for built in models for row in _catalogue_rows(built, progress)],
    )


def _catalogue_rows(built: BuiltFolder, progress: Progress) -> Iterator[CatalogueRow]:
    manifest = built.manifest
    for label, variant in built.variants.items():
        progress.stage(f"{built.entry.name}: memory of {label}")
        checked = variant.verification.comparisons if variant.verification else ()
        yield CatalogueRow(
            model=built.entry.name,
            variant=label,
            file=variant.file,
            family=built.entry.family,
            precision=variant.precision,
            opset=variant.opset,
            parameters=manifest.parameters,
            bytes=sum(manifest.listed[name].bytes for name in variant.files),
            input=_input_words(manifest),
            licence=manifest.licence.name,
            random=manifest.weights.kind == "random",
            error=worst(checked, "max_abs"),
            cosine=worst(checked, "cosine"),
            **_measure(built, label, variant),
        )


def _input_words(manifest: Manifest) -> str:
    """Return the input of a file in words, for example `any picture` or `224 x 224`."""
    if manifest.input == "uint8":
        return "any picture"
    return "any size" if manifest.size is None else "{} x {}".format(*manifest.size)


def _measure(built: BuiltFolder, label: str, variant: Variant) -> dict[str, Any]:
    """Return the times, the multiply-adds and the peak memory of a variant.

    Return an empty dictionary if the variant was not timed. Such a variant does not run on a CPU.
    """
    speed = built.speeds.variants.get(label)
    if speed is None:
        return {}
    specs = [*_input_specs(variant, built.speeds.input)]
    path = built.folder / variant.file
    counted = timed_products(ir.load(path), specs)
    return {
        "p50_ms": speed.p50_ms,
        "busy": is_busy(built.speeds.others),
        "ratio": speed.ratio,
        "multiply_adds": counted.flops // 2,
        "uncounted": counted.uncounted.total(),
        "peak_bytes": footprint(path, specs, THREADS).peak,
    }


def _input_specs(variant: Variant, timed: tuple[int, ...]) -> Iterator[Spec]:
    """Yield the inputs of a file: the timed input, and texts of the same batch size."""
    first, *text_inputs = variant.inputs
    yield Spec(first.name, first.dtype, timed)
    for spec in text_inputs:
        pairs = zip(spec.shape, (timed[0], OPEN_WORDS), strict=True)
        sides = (side if isinstance(side, int) else default_size for side, default_size in pairs)
        yield Spec(spec.name, spec.dtype, tuple(sides))
