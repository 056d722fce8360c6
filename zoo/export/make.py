"""Making ONNX files: in float32 from a model, in lower precisions from a file in float32."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

import converter
from converter.ir.names import Names
from converter.opsets import DEFAULT_TARGET
from weights.progress import Progress
from zoo.architectures.base import Network
from zoo.architectures.builder import batched, networks_in
from zoo.architectures.inputs import BATCH_NAMES, ONE_BATCH
from zoo.artifacts.choices import Layout, Target
from zoo.artifacts.measured import Calibration, Verification
from zoo.artifacts.schema import Variant
from zoo.common.prefetch import prefetching
from zoo.common.staging import Digests, sidecar_path, staged, writing
from zoo.export.describe import describe_variant
from zoo.export.network_inputs import input_specs, sample_inputs
from zoo.export.precision import derive
from zoo.export.precisions import PRECISIONS
from zoo.export.request import FileSpec, Options, Plan, Signature
from zoo.export.subject import Subject
from zoo.images.in_graph import front
from zoo.images.picture_folder import PictureFolder

if TYPE_CHECKING:
    # ONNX Runtime is imported only where a file is verified.
    from zoo.common.runtime import Session
    from zoo.export.verify import Sample


@dataclass(frozen=True)
class ExportedFile:
    """An ONNX file that was written to a staged folder, and verified unless the plan says not to.

    `digests` are the sha256 of the file and its sidecar, by their names. `session` is the one that
    the file ran in, unless that keeps a file open.
    """

    spec: FileSpec
    path: Path
    variant: Variant
    digests: Mapping[str, str]
    session: Session | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it was verified, and is too far from JAX."""
        return self.variant.verification is not None and not self.variant.passed

    def publish(self, keep_inexact: bool, put: Callable[[], None]) -> bool:
        """Put the file in its place, unless it failed its verification. Return whether it was put.

        Nothing else calls `put`, so that there is nothing at the path of a file that failed. One of
        low precision, which is known to be inexact, is put all the same if the caller accepts that.
        """
        is_accepted = keep_inexact and self.spec.precision != "fp32"
        is_publishable = is_accepted or not self.has_failed
        if is_publishable:
            put()
        return is_publishable


@dataclass(frozen=True)
class Production:
    """The files of one network in a staged folder, while they are written and verified.

    All have the same `signature`. Without `samples` they are not verified. `digests` and
    `calibrations` are those of the files written so far, by their names.
    """

    options: Options
    pictures: PictureFolder | None
    subject: Subject
    signature: Signature
    samples: Callable[[], Sequence[Sample]] | None
    stage: Path
    progress: Progress
    digests: Digests = field(default_factory=Digests)
    calibrations: dict[str, Calibration] = field(default_factory=dict)

    def files(self, specs: Sequence[FileSpec]) -> Iterator[ExportedFile]:
        """Write all files at once, and yield each when it is verified.

        All are written before the first is verified, for JAX takes a while to compute samples. They
        come in the order of their opsets; the one in float32, from which the others of its opset
        are made, comes last.
        """
        in_order = sorted(specs, key=lambda spec: (spec.opset, spec.precision == "fp32"))
        exports = {
            opset: self.write_opset(opset, list(files))
            for opset, files in groupby(in_order, attrgetter("opset"))
        }

        @cache  # the files of an opset have the branches of one trace
        def untaken(opset: int) -> tuple[str, ...]:
            return self.untaken(exports[opset])

        for spec in in_order:
            yield self.verified(spec, exports[spec.opset], untaken(spec.opset))

    def write_opset(self, opset: int, specs: Sequence[FileSpec]) -> converter.Export:
        """Write the files of an opset under the names that they will have: a model knows the name
        of its sidecar. Return the export that they were made from."""
        options, progress = self.options, self.progress
        in_float32 = next((spec.name for spec in specs if spec.precision == "fp32"), None)
        source = self.stage / (in_float32 or f"float32-opset{opset}.onnx")
        progress.stage(f"opset {opset}: converting")
        export = convert_model(
            self.subject.model, opset, self.signature, options.layout, options.target
        )
        progress.stage(f"opset {opset}: writing", self.subject.entry.parameters * 4)
        with writing(source), self.digests.taken() as written:
            values, step = self.subject.weights.arrays, lambda _, size: progress.step(size)
            export.save(source, values=values, progress=step, on_write=written)
        for spec in specs:
            if self.stage / spec.name != source:
                self.lower(source, spec)
            if spec.input == "uint8":
                self.add_preprocessing(spec)
        if in_float32 is None:
            source.unlink()
            sidecar_path(source).unlink(missing_ok=True)
        return export

    def lower(self, source: Path, spec: FileSpec) -> None:
        """Write a float32 file in the precision of another one."""
        self.progress.stage(f"{spec.precision}: writing")
        entry, options, file = self.subject.entry, self.options, self.stage / spec.name
        how = entry.preprocessing
        size, batch = spec.size or how.size, spec.batch or 1
        inputs = [*sample_inputs(entry, batch, size).values()]
        taken, is_scaled = entry.config.pictures, PRECISIONS[spec.precision].scales_activations
        if self.pictures is not None and taken is not None and is_scaled:
            # ONNX Runtime is imported only where something runs in it.
            from zoo.export.calibration import Calibrator, write_best

            calibrator = Calibrator(self.pictures, taken, how, size, batch)
            target, progress = options.target, self.progress
            with writing(file):
                calibrated = write_best(source, file, calibrator, inputs, target, progress)
            self.calibrations[file.name] = calibrated[0]
            self.digests.update(calibrated[1])
            return
        with writing(file), self.digests.taken() as written:
            exact = entry.config.task.exact
            more = (options.target, options.scales, exact)
            derive(source, file, spec.precision, inputs, written, *more)

    def add_preprocessing(self, spec: FileSpec) -> None:
        """Put preprocessing in front of the network in a file."""
        how, file = self.subject.entry.preprocessing, self.stage / spec.name
        self.progress.stage(f"{file.name}: preprocessing")
        target = self.options.target
        first = front(how, spec.size or how.size, spec.opset, spec.batch, target)
        joined = converter.join(first.model, ir.load(file), target)
        with writing(file), self.digests.taken() as written:
            converter.save(joined, file, on_write=written)

    def untaken(self, export: converter.Export) -> tuple[str, ...]:
        """Return a sentence for each branch of a network that no sample takes; nothing without
        samples."""
        if self.samples is None:
            return ()
        from zoo.export.verify import untaken_sides

        return untaken_sides(export, self.samples(), self.subject.weights.arrays)

    def verified(
        self, spec: FileSpec, export: converter.Export, untaken: tuple[str, ...]
    ) -> ExportedFile:
        """Compare a file with JAX, and describe it; `export` is what it was made from, and
        `untaken` the branches that no sample takes."""
        file, traits = self.stage / spec.name, PRECISIONS[spec.precision]
        verification = session = oldest = None
        if self.samples is not None:
            self.progress.stage(f"{file.name}: verifying")
            verification, session, oldest = self._verify(spec, self.samples())
            verification = verification.model_copy(update={"untaken": untaken})
        if not traits.on_cpu or sidecar_path(file).exists():
            session = None
        # A file that holds just what was converted need not be read again.
        is_converted = spec.precision == "fp32" and spec.input == "float32"
        model = export.model if is_converted else ir.load(file)
        paths = [path for path in (file, sidecar_path(file)) if path.exists()]
        variant = describe_variant(
            model,
            export.report.near_misses,
            files=tuple(spec.beside(path.name) for path in paths),
            precision=spec.precision,
            target=self.options.target,
            verification=verification,
            minimum_runtime=oldest,
            activations=self._activations(spec),
        )
        digests = {
            path.name: self.digests[path.name] for path in paths if path.name in self.digests
        }
        return ExportedFile(spec, file, variant, digests, session)

    def _verify(
        self, spec: FileSpec, samples: Sequence[Sample]
    ) -> tuple[Verification, Session, str | None]:
        """The verification of a file, the session that it ran in, and the oldest version of ONNX
        Runtime in which it is right, if it passed and runs as it is."""
        from zoo.common.runtime import session
        from zoo.export.other_runtimes import minimum_runtime
        from zoo.export.verify import limit_for, runnable, verify_file

        file, subject = self.stage / spec.name, self.subject
        limit = limit_for(spec.precision, subject.weights.provenance.kind, subject.entry.config)
        opened = cache(partial(session, runnable(file, spec.precision)))
        found = verify_file(file, samples, spec.precision, limit=limit, opened=opened)
        runs_as_it_is = found.passed and PRECISIONS[spec.precision].on_cpu
        return found, opened(), minimum_runtime(file, samples[0], limit) if runs_as_it_is else None

    def _activations(self, spec: FileSpec) -> dict[str, Any]:
        """How activations are scaled, if they are integers."""
        if not PRECISIONS[spec.precision].scales_activations:
            return {}
        calibration = self.calibrations.get(spec.name)
        return {"calibration": calibration} if calibration else {"scales": self.options.scales}


@contextmanager
def produce(
    plan: Plan, subject: Subject, progress: Progress, tower: str = ""
) -> Generator[Production]:
    """Give the production of the files of a network, or of one of its towers.

    They are staged in the folder of the plan while the block runs. A thread computes samples in JAX
    meanwhile, if the plan says to verify.
    """
    signature = next(file for file in plan.files if file.tower == tower)
    with ExitStack() as stack:
        samples = None
        if plan.options.verify:
            # ONNX Runtime is imported only where a file is verified.
            from zoo.export.verify import runs

            tasks = runs(subject.entry, subject.model, subject.weights.arrays, signature)
            samples = stack.enter_context(prefetching(tasks))
            del tasks
        stage = stack.enter_context(staged(plan.folder))
        more = (signature, samples, stage, progress)
        yield Production(plan.options, plan.pictures, subject, *more)


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
