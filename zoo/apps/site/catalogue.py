"""The numbers of a site: a row for each ONNX file, from its manifest and from measurements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from weights.progress import Progress
from zoo.apps.site.folders import BuiltFolder
from zoo.artifacts.measured import find_worst_error, is_busy
from zoo.artifacts.schema import Manifest, Variant
from zoo.common.runtime import VERSION
from zoo.export.timing.footprint import measure_footprint
from zoo.export.timing.rounds import describe_machine
from zoo.export.timing.timed_inputs import OPEN_TEXT_TOKENS, TimedInput
from zoo.export.timing.timed_products import timed_products

FORMAT = "jax-onnx-zoo site"

THREADS = 1
"""The number of threads of the runs whose memory is measured."""


@dataclass(frozen=True)
class CatalogueRow:
    """The facts about one ONNX file in the table of a site.

    Values that were not measured are None. Fields whose names do not explain them:

    - `variant`: the name of the variant.
    - `random`: whether the weights are random.
    - `error`: the largest absolute difference of any output from JAX.
    - `cosine`: the least cosine similarity of any output to JAX.
    - `p50_ms`: the median time of a run. It is too long if the machine was `busy` with other
      programs.
    - `ratio`: how many times faster than `fp32` the file is.
    - `multiply_adds`: the number of those in matrix products and convolutions, for one batch of the
      timed input.
    - `uncounted`: the number of further products, whose sizes are known only during a run.
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
    """The rows for all ONNX files of a site.

    `runtime` and `machine` describe with what their peak memory was measured.
    """

    runtime: str
    machine: str
    rows: Sequence[CatalogueRow]


def build_catalogue(models: Sequence[BuiltFolder], progress: Progress) -> Catalogue:
    """Return the facts about all ONNX files of some folders.

    The peak memory of each file is measured. **Raises** `BadFile` for a file whose process dies.
    """
    return Catalogue(
        runtime=f"{VERSION}, CPU, {THREADS} thread",
        machine=describe_machine(),
        rows=[row for built in models for row in _catalogue_rows(built, progress)],
    )


def _catalogue_rows(built: BuiltFolder, progress: Progress) -> Iterator[CatalogueRow]:
    """Yield the facts about each ONNX file of a folder, after its peak memory was measured."""
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
            bytes=sum(manifest.files_by_name[name].bytes for name in variant.files),
            input=_input_words(manifest),
            licence=manifest.licence.name,
            random=manifest.weights.kind == "random",
            error=find_worst_error(checked, "max_abs"),
            cosine=find_worst_error(checked, "cosine"),
            **_measure(built, label, variant),
        )


def _input_words(manifest: Manifest) -> str:
    """Return the input of a file in words, for example `any picture` or `224 x 224`."""
    if manifest.input == "uint8":
        return "any picture"
    return "any size" if manifest.size is None else "{} x {}".format(*manifest.size)


def _measure(built: BuiltFolder, label: str, variant: Variant) -> dict[str, Any]:
    """Return the times, the multiply-adds and the peak memory of a variant, by field of the row.

    `label` is the name of the variant. Return an empty dictionary if the variant was not timed,
    because it does not run on a CPU.
    """
    speed = built.speeds.variants.get(label)
    if speed is None:
        return {}
    specs = [*_timed_inputs(variant, built.speeds.input)]
    path = built.folder / variant.file
    counted = timed_products(ir.load(path), specs)
    return {
        "p50_ms": speed.p50_ms,
        "busy": is_busy(built.speeds.others),
        "ratio": speed.ratio,
        "multiply_adds": counted.flops // 2,
        "uncounted": counted.uncounted.total(),
        "peak_bytes": measure_footprint(path, specs, THREADS).peak,
    }


def _timed_inputs(variant: Variant, timed: tuple[int, ...]) -> Iterator[TimedInput]:
    """Yield the inputs of a file with a number for each dimension.

    The first input has the shape `timed`. Others are texts of the same batch size, with a fixed
    number of tokens where the file leaves it open.
    """
    first, *text_inputs = variant.inputs
    yield TimedInput(first.name, first.dtype, timed)
    for spec in text_inputs:
        pairs = zip(spec.shape, (timed[0], OPEN_TEXT_TOKENS), strict=True)
        sides = (side if isinstance(side, int) else default_size for side, default_size in pairs)
        yield TimedInput(spec.name, spec.dtype, tuple(sides))
