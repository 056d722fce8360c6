"""Making ONNX files: in float32 from a model, in lower precisions from a file in float32."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

import converter
from converter.ir.names import Names
from converter.opsets import DEFAULT_TARGET
from weights import Weights
from weights.progress import Progress
from zoo.architectures.base import Network
from zoo.architectures.builder import batched, networks_in
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import BATCH_NAMES, ONE_BATCH
from zoo.artifacts.choices import Layout, Precision, Scales, Target
from zoo.artifacts.measured import Calibration, Verification
from zoo.common.staging import Digests, sidecar_path, staged, writing
from zoo.export.network_inputs import input_specs, sample_inputs
from zoo.export.precision import derive, limit_for, runnable
from zoo.export.request import FileSpec, Signature
from zoo.images.in_graph import front
from zoo.images.picture_folder import PictureFolder

if TYPE_CHECKING:
    # ONNX Runtime is imported only where a file is verified.
    from zoo.common.runtime import Session
    from zoo.export.verify import Sample


@dataclass(frozen=True)
class ExportedFile:
    """A file that was made: its graph, what nearly fused in it, and how it was checked.

    `digests` are the sha256 of the file and of what lies beside it, by their names. `live` is the
    session that the file ran in, unless that keeps a file open. `calibration` says on which
    pictures its activations were ranged, if on any. `minimum_runtime` is the oldest version of ONNX
    Runtime that it was run in as it is, if there is any.
    """

    model: ir.Model
    near_misses: Sequence[converter.NearMiss]
    precision: Precision
    verification: Verification | None
    digests: Mapping[str, str]
    live: Session | None = None
    calibration: Calibration | None = None
    scales: Scales = "tensor"
    minimum_runtime: str | None = None

    def may_stay(self, keep_inexact: bool) -> bool:
        """Whether it may be put in its place: no check failed, or of a low precision that is known
        and wanted all the same."""
        right = self.verification is None or self.verification.passed
        return right or (keep_inexact and self.precision != "fp32")


@dataclass(frozen=True)
class Maker:
    """All that the files of one model are made from; without `samples` they are not checked.

    Activations of int8 have these `scales`, or are ranged on `pictures`; `calibrations` are what
    came of that, by the names of the files.
    """

    entry: ModelInfo
    model: Network
    weights: Weights
    signature: Signature
    samples: Callable[[], Sequence[Sample]] | None = None
    target: Target = DEFAULT_TARGET
    layout: Layout | None = None
    pictures: PictureFolder | None = None
    scales: Scales = "tensor"
    digests: Digests = field(default_factory=Digests)
    calibrations: dict[str, Calibration] = field(default_factory=dict)

    def at_opset(
        self, opset: int, specs: Sequence[FileSpec], stage: Path, progress: Progress
    ) -> converter.Export:
        """Write the files of an opset under the names that they will have: a model knows its
        sidecar's. The one in float32 is the last of them. Returns what they were made from."""
        whole = next((spec.name for spec in specs if spec.precision == "fp32"), None)
        source = stage / (whole or f"float32-opset{opset}.onnx")
        progress.stage(f"opset {opset}: converting")
        export = convert_model(self.model, opset, self.signature, self.layout, self.target)
        progress.stage(f"opset {opset}: writing", self.entry.parameters * 4)
        with writing(source), self.digests.taken() as written:
            values, step = self.weights.arrays, lambda _, size: progress.step(size)
            export.save(source, values=values, progress=step, written=written)
        for spec in specs:
            file = stage / spec.name
            if file != source:
                self.lower(source, file, spec.precision, progress)
            self.take_images(file, opset, progress)
        if whole is None:
            source.unlink()
            sidecar_path(source).unlink(missing_ok=True)
        return export

    def lower(self, source: Path, file: Path, precision: Precision, progress: Progress) -> None:
        """Write a float32 file in a lower precision."""
        progress.stage(f"{precision}: writing")
        entry, signature = self.entry, self.signature
        how = entry.preprocessing
        size, batch = signature.size or how.size, signature.batch or 1
        inputs = [*sample_inputs(entry, batch, size).values()]
        taken = entry.config.pictures
        if precision == "int8" and self.pictures is not None and taken is not None:
            # ONNX Runtime is imported only where something runs in it.
            from zoo.export.calibration import Calibrator, write_best

            calibrator = Calibrator(self.pictures, taken, how, size, batch)
            with writing(file):
                calibrated = write_best(source, file, calibrator, inputs, self.target, progress)
            self.calibrations[file.name] = calibrated[0]
            self.digests.update(calibrated[1])
            return
        with writing(file), self.digests.taken() as written:
            exact = self.entry.config.task.exact
            options = (self.target, self.scales, exact)
            derive(source, file, precision, inputs, written, *options)

    def take_images(self, file: Path, opset: int, progress: Progress) -> None:
        """Put preprocessing in front of a file that is to take images; else leave it."""
        signature, how = self.signature, self.entry.preprocessing
        if signature.input == "uint8":
            progress.stage(f"{file.name}: preprocessing")
            first = front(how, signature.size or how.size, opset, signature.batch, self.target)
            joined = converter.join(first.model, ir.load(file), self.target)
            with writing(file), self.digests.taken() as written:
                converter.save(joined, file, written=written)

    def untaken(self, source: converter.Export) -> tuple[str, ...]:
        """Return what no sample takes of the branches of a network; nothing without samples."""
        if self.samples is None:
            return ()
        from zoo.export.verify import untaken_sides

        return untaken_sides(source, self.samples(), self.weights.arrays)

    def checked(
        self,
        file: Path,
        precision: Precision,
        source: converter.Export,
        untaken: tuple[str, ...],
        progress: Progress,
    ) -> ExportedFile:
        """Compare a file with JAX; `source` is what it was made from, `untaken` goes on record."""
        verification = live = oldest = None
        if self.samples is not None:
            from zoo.common.runtime import session
            from zoo.export.other_runtimes import minimum_runtime
            from zoo.export.verify import verify_file

            progress.stage(f"{file.name}: verifying")
            limit = limit_for(precision, self.weights.provenance.kind, self.entry.config)
            opened = cache(partial(session, runnable(file, precision)))
            verified = verify_file(file, self.samples(), precision, limit=limit, opened=opened)
            verification = verified.model_copy(update={"untaken": untaken})
            live = opened()
            # On CPUs a file in bfloat16 is run in a form that no user has.
            if verification.passed and precision != "bf16":
                oldest = minimum_runtime(file, self.samples()[0], limit)
        if precision == "bf16" or sidecar_path(file).exists():
            live = None
        # A file that holds just what was converted need not be read again.
        same = precision == "fp32" and self.signature.input == "float32"
        model = source.model if same else ir.load(file)
        names = {file.name, sidecar_path(file).name}
        digests = {name: self.digests[name] for name in names & self.digests.keys()}
        near = source.report.near_misses
        calibration = self.calibrations.get(file.name)
        how = (calibration, self.scales, oldest)
        return ExportedFile(model, near, precision, verification, digests, live, *how)


@contextmanager
def making_files(
    specs: Sequence[FileSpec], folder: Path, maker: Maker, progress: Progress
) -> Generator[Iterator[tuple[FileSpec, Path, ExportedFile]]]:
    """Make files, staged in a folder while the block runs.

    All are made before the first is checked, for JAX takes a while to say what is right. Each is
    checked when it is asked for.
    """
    # The float32 file of an opset comes last: others are made from it before it takes images.
    in_order = sorted(specs, key=lambda spec: (spec.opset, spec.precision == "fp32"))
    with staged(folder) as stage:
        exports = {
            opset: maker.at_opset(opset, list(files), stage, progress)
            for opset, files in groupby(in_order, attrgetter("opset"))
        }

        @cache  # the files of an opset have the branches of one trace
        def untaken(opset: int) -> tuple[str, ...]:
            return maker.untaken(exports[opset])

        files = ((spec, stage / spec.name) for spec in in_order)
        yield (
            (
                spec,
                file,
                maker.checked(
                    file, spec.precision, exports[spec.opset], untaken(spec.opset), progress
                ),
            )
            for spec, file in files
        )


def convert_model(
    model: Network,
    opset: int | None,
    signature: Signature,
    layout: Layout | None = None,
    target: Target = DEFAULT_TARGET,
) -> converter.Export:
    """The model as an ONNX graph whose initializers have names and shapes, not yet values."""
    (network,) = networks_in(model)
    config = network.config
    assert config is not None, "a network that was built by hand has no configuration"
    computed = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )
    export = converter.to_onnx(
        computed,
        input_specs(config, signature),
        params=model,
        opset=opset,
        attention_layout=layout,
        target=target,
        input_names=config.takes,
    )
    if signature.size is None:
        name_sides(export.model.graph, config.stride)
    return export


def name_sides(graph: ir.Graph, stride: int) -> None:
    """Give open sides the names that others use, not those of the symbols in the trace. A map with
    several rows and columns for each of the grid's is so many times smaller than the picture."""
    names = {batch: batch for batch in (ONE_BATCH, *BATCH_NAMES.values())}
    names |= {"h": "grid_height", "w": "grid_width"}
    for times in range(1, stride + 1):
        smaller = "" if times == stride else f"/{stride // times}"
        if stride % times == 0:
            names |= {f"{times}*h": f"height{smaller}", f"{times}*w": f"width{smaller}"}
    counts = Names()
    for value in (*graph.inputs, *graph.outputs):
        assert value.shape is not None
        dims = [dim if isinstance(dim, int) else str(dim.value) for dim in value.shape]
        for dim in dims:
            # What is left counts the tokens: `h*w + 5`.
            if isinstance(dim, str) and dim not in names:
                names[dim] = counts.take("sequence_length")
        value.shape = ir.Shape(dim if isinstance(dim, int) else names[dim] for dim in dims)
