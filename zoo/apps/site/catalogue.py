"""The numbers of a site: a row for each ONNX file, from its manifest and from what is measured."""

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
from zoo.export.timing.timed_inputs import OPEN_TEXT_TOKENS, InputSpec
from zoo.export.timing.timed_products import timed_products

FORMAT = "jax-onnx-zoo site"

THREADS = 1
"""Of the runs whose memory is measured: as many as those have whose time is in manifests."""


@dataclass(frozen=True)
class CatalogueRow:
    """One ONNX file. What nobody measured is None; `random` is said of its weights.

    `error` is the largest absolute difference from JAX of any output, `cosine` the least cosine
    similarity; `p50_ms` is a median, too long where the machine was `busy` with other programs, and
    `ratio` how many times faster than `fp32` that is;
    `multiply_adds` are those of matrix products and convolutions, for one image of the size that
    was timed; `uncounted` are further products, of sizes that only a run would tell.
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
    """All rows, and what their peak memory was measured with."""

    runtime: str
    machine: str
    rows: Sequence[CatalogueRow]


def catalogue(models: Sequence[BuiltFolder], progress: Progress) -> Catalogue:
    """Read and measure everything. **Raises** `BadFile` for a file whose process dies."""
    return Catalogue(
        runtime=f"{VERSION}, CPU, {THREADS} thread",
        machine=describe_machine(),
        rows=[row for built in models for row in _rows(built, progress)],
    )


def _rows(built: BuiltFolder, progress: Progress) -> Iterator[CatalogueRow]:
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
            input=_input(manifest),
            licence=manifest.licence.name,
            random=manifest.weights.kind == "random",
            error=find_worst_error(checked, "max_abs"),
            cosine=find_worst_error(checked, "cosine"),
            **_measured(built, label, variant),
        )


def _input(manifest: Manifest) -> str:
    """What a file takes, in words."""
    if manifest.input == "uint8":
        return "any picture"
    return "any size" if manifest.size is None else "{} x {}".format(*manifest.size)


def _measured(built: BuiltFolder, label: str, variant: Variant) -> dict[str, Any]:
    """Of one run on what was timed; a variant that was not has no kernels on a CPU."""
    speed = built.speeds.variants.get(label)
    if speed is None:
        return {}
    specs = [*_specs(variant, built.speeds.input)]
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


def _specs(variant: Variant, timed: tuple[int, ...]) -> Iterator[InputSpec]:
    """The inputs of a file: what was timed, and of texts beside it as many."""
    first, *others = variant.inputs
    yield InputSpec(first.name, first.dtype, timed)
    for each in others:
        pairs = zip(each.shape, (timed[0], OPEN_TEXT_TOKENS), strict=True)
        sides = (side if isinstance(side, int) else usual for side, usual in pairs)
        yield InputSpec(each.name, each.dtype, tuple(sides))
