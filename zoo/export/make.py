"""Write and verify ONNX files: in float32 from a model, in lower precisions from a float32 file."""

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
from zoo.architectures.builder import batched, find_networks
from zoo.architectures.inputs import BATCH_NAME, SEPARATE_BATCH_NAMES
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
from zoo.images.in_graph import export_preprocessing
from zoo.images.picture_folder import PictureFolder

if TYPE_CHECKING:
    # ONNX Runtime is imported only where a file is verified.
    from zoo.common.runtime import Session
    from zoo.export.verify import Sample


@dataclass(frozen=True)
class ExportedFile:
    """An ONNX file in a staged folder, verified unless the plan says not to.

    Arguments:
        spec: the file in the plan.
        path: its path in the staged folder.
        variant: its record for the manifest.
        digests: sha256 of the file and its sidecar, by file name.
        session: the session that it was verified in, or None if that would keep a file open.
    """

    spec: FileSpec
    path: Path
    variant: Variant
    digests: Mapping[str, str]
    session: Session | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the file was verified and failed."""
        return self.variant.verification is not None and not self.variant.passed

    def publish(self, keep_inexact: bool, put: Callable[[], None]) -> bool:
        """Call `put`, which moves the file to its path, unless the file failed its verification.
        Return whether it was called.

        Only this method calls `put`, so that no file that failed is at its path. A file of lower
        precision that failed is moved if the caller accepts inexact files (`keep_inexact`).
        """
        is_accepted = keep_inexact and self.spec.precision != "fp32"
        is_publishable = is_accepted or not self.has_failed
        if is_publishable:
            put()
        return is_publishable


@dataclass(frozen=True)
class Production:
    """The files of one network in a staged folder, while they are written and verified.

    Arguments:
        options: options of the request.
        pictures: the user's pictures for calibration, or None without them.
        subject: the network with its weights.
        signature: the signature of all files.
        samples: function that returns the samples, or None if files are not verified.
        stage: the staged folder.
        progress: reports progress.
        digests: digests of the files that are written, by name.
        calibrations: calibrations of the files that are written, by name.
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
        """Write all files, and yield each when it is verified.

        All files are written before the first is verified, because JAX computes the samples
        meanwhile. They are yielded by opset. The float32 file, from which the other files of its
        opset are written, is the last of an opset.
        """
        in_order = sorted(specs, key=lambda spec: (spec.opset, spec.precision == "fp32"))
        exports = {
            opset: self.write_opset(opset, list(files))
            for opset, files in groupby(in_order, attrgetter("opset"))
        }

        @cache  # all files of an opset come from one trace and have its branches
        def untaken(opset: int) -> tuple[str, ...]:
            return self.untaken(exports[opset])

        for spec in in_order:
            yield self.verified(spec, exports[spec.opset], untaken(spec.opset))

    def write_opset(self, opset: int, specs: Sequence[FileSpec]) -> converter.Export:
        """Write the files of an opset under their final names, because a model contains the name of
        its sidecar. Return the export that they come from."""
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
        """Write the file of a lower precision from a float32 file."""
        self.progress.stage(f"{spec.precision}: writing")
        entry, options, file = self.subject.entry, self.options, self.stage / spec.name
        preprocessing = entry.preprocessing
        size, batch = spec.size or preprocessing.size, spec.batch or 1
        inputs = [*sample_inputs(entry, batch, size).values()]
        picture_input, is_scaled = (
            entry.config.pictures,
            PRECISIONS[spec.precision].scales_activations,
        )
        if self.pictures is not None and picture_input is not None and is_scaled:
            # ONNX Runtime is imported only where something runs in it.
            from zoo.export.calibration import Calibrator, write_best

            calibrator = Calibrator(self.pictures, picture_input, preprocessing, size, batch)
            target, progress = options.target, self.progress
            with writing(file):
                calibrated = write_best(source, file, calibrator, inputs, target, progress)
            self.calibrations[file.name] = calibrated[0]
            self.digests.update(calibrated[1])
            return
        with writing(file), self.digests.taken() as written:
            exact = entry.config.task.exact
            settings = (options.target, options.scales, exact)
            derive(source, file, spec.precision, inputs, written, *settings)

    def add_preprocessing(self, spec: FileSpec) -> None:
        """Add nodes to a file that preprocess images before the network."""
        preprocessing, file = self.subject.entry.preprocessing, self.stage / spec.name
        self.progress.stage(f"{file.name}: preprocessing")
        target = self.options.target
        first = export_preprocessing(
            preprocessing, spec.size or preprocessing.size, spec.opset, spec.batch, target
        )
        joined = converter.join(first.model, ir.load(file), target)
        with writing(file), self.digests.taken() as written:
            converter.save(joined, file, on_write=written)

    def untaken(self, export: converter.Export) -> tuple[str, ...]:
        """Return a sentence for each branch of a network that no sample takes, or an empty tuple if
        there are no samples."""
        if self.samples is None:
            return ()
        from zoo.export.verify import describe_untaken_sides

        return describe_untaken_sides(export, self.samples(), self.subject.weights.arrays)

    def verified(
        self, spec: FileSpec, export: converter.Export, untaken: tuple[str, ...]
    ) -> ExportedFile:
        """Compare a file with JAX, and return it with its record.

        `export` is the export that the file comes from. `untaken` are sentences about branches that
        no sample takes.
        """
        file, traits = self.stage / spec.name, PRECISIONS[spec.precision]
        verification = session = oldest = None
        if self.samples is not None:
            self.progress.stage(f"{file.name}: verifying")
            verification, session, oldest = self._verify(spec, self.samples())
            verification = verification.model_copy(update={"untaken": untaken})
        if not traits.on_cpu or sidecar_path(file).exists():
            session = None
        # The graph of a float32 file without preprocessing is the export's, and is not read again.
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
        """Return the verification of a file, its session, and the oldest version of ONNX Runtime in
        which it is right. The version is None if the file failed or has to be emulated."""
        from zoo.common.runtime import session
        from zoo.export.other_runtimes import find_minimum_runtime
        from zoo.export.verify import choose_limit, to_runnable, verify_file

        file, subject = self.stage / spec.name, self.subject
        limit = choose_limit(spec.precision, subject.weights.provenance.kind, subject.entry.config)
        opened = cache(partial(session, to_runnable(file, spec.precision)))
        verification = verify_file(file, samples, spec.precision, limit=limit, opened=opened)
        is_run_unchanged = verification.passed and PRECISIONS[spec.precision].on_cpu
        return (
            verification,
            opened(),
            find_minimum_runtime(file, samples[0], limit) if is_run_unchanged else None,
        )

    def _activations(self, spec: FileSpec) -> dict[str, Any]:
        """Return the fields of the record about the scaling of integer activations, or an empty
        dictionary if they are not integers."""
        if not PRECISIONS[spec.precision].scales_activations:
            return {}
        calibration = self.calibrations.get(spec.name)
        return {"calibration": calibration} if calibration else {"scales": self.options.scales}


@contextmanager
def produce(
    plan: Plan, subject: Subject, progress: Progress, tower: str = ""
) -> Generator[Production]:
    """Yield the production of the files of a network, or of one of its towers.

    The files are in a staged folder while the block runs. If the plan says to verify, a thread
    computes the samples in JAX meanwhile.
    """
    signature = next(file for file in plan.files if file.tower == tower)
    with ExitStack() as stack:
        samples = None
        if plan.options.verify:
            # ONNX Runtime is imported only where a file is verified.
            from zoo.export.verify import sample_tasks

            tasks = sample_tasks(subject.entry, subject.model, subject.weights.arrays, signature)
            samples = stack.enter_context(prefetching(tasks))
            del tasks
        stage = stack.enter_context(staged(plan.folder))
        arguments = (signature, samples, stage, progress)
        yield Production(plan.options, plan.pictures, subject, *arguments)


def convert_model(
    model: Network,
    opset: int | None,
    signature: Signature,
    layout: Layout | None = None,
    target: Target = DEFAULT_TARGET,
) -> converter.Export:
    """Return the ONNX export of a model. Its initializers have names and shapes, but no values
    yet."""
    (network,) = find_networks(model)
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
    """Rename the open sizes of a graph from the symbols of the trace to the names that other
    exporters use. A map that has several rows and columns for each patch is smaller than the
    picture by a smaller factor, such as `height/4`."""
    names = {batch: batch for batch in (BATCH_NAME, *SEPARATE_BATCH_NAMES.values())}
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
            # All other open sizes are numbers of tokens, such as `h*w + 5`.
            if isinstance(dim, str) and dim not in names:
                names[dim] = counts.take("sequence_length")
        value.shape = ir.Shape(dim if isinstance(dim, int) else names[dim] for dim in dims)
