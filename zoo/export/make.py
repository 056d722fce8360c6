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
from zoo.common.staging import Digests, sidecar_path, staged, translate_write_errors
from zoo.export.describe import describe_variant
from zoo.export.network_inputs import input_specs, sample_inputs
from zoo.export.precision import write_lower_precision
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
    """An ONNX file in a staged folder. It has been verified, unless the plan says not to.

    Arguments:
        spec: the plan's description of the file.
        path: path of the file in the staged folder.
        variant: record of the file for the manifest, with its verification.
        digests: sha256 of the file and its sidecar, by file name.
        session: the ONNX Runtime session that verified the file, or None. It is None for a file
            with a sidecar, which the session would keep open, for an emulated file, and without
            verification.
    """

    spec: FileSpec
    path: Path
    variant: Variant
    digests: Mapping[str, str]
    session: Session | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the file was verified and failed. False if it was not verified."""
        return self.variant.verification is not None and not self.variant.passed

    def publish(self, keep_inexact: bool, move_file: Callable[[], None]) -> bool:
        """Call `move_file`, which moves the file to its final path, unless the file failed its
        verification.

        A file of lower precision that failed is moved too if `keep_inexact` is true. Nothing else
        calls `move_file`, so that no file gets to its path without this check. **Returns** whether
        it was called.
        """
        is_accepted = keep_inexact and self.spec.precision != "fp32"
        is_publishable = is_accepted or not self.has_failed
        if is_publishable:
            move_file()
        return is_publishable


@dataclass(frozen=True)
class Production:
    """The work on the files of one network or tower in a staged folder: they are written, then
    verified.

    Arguments:
        options: options of the request.
        pictures: the user's pictures for calibration, or None without them.
        subject: the network with its weights.
        signature: inputs and outputs of all files.
        samples: function that returns the samples to verify with, or None if files are not
            verified.
        stage: the staged folder that the files are written to.
        progress: reports progress.
        digests: sha256 of the files that are written, by name.
        calibrations: calibrations of int8 files that are written, by file name.
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

    def write_and_verify(self, specs: Sequence[FileSpec]) -> Iterator[ExportedFile]:
        """Write all files that `specs` describes, then verify them one by one and yield each.

        All files are written before the first is verified, because a thread computes the samples in
        JAX meanwhile. They are yielded in the order of their opsets. The float32 file is the last
        of its opset, if `specs` has one.
        """
        in_order = sorted(specs, key=lambda spec: (spec.opset, spec.precision == "fp32"))
        exports = {
            opset: self.write_opset(opset, list(files))
            for opset, files in groupby(in_order, attrgetter("opset"))
        }

        @cache  # all files of an opset come from one trace and have its branches
        def untaken(opset: int) -> tuple[str, ...]:
            """Return sentences about sides of the program that no sample takes, for the files of an
            opset."""
            return self.describe_untaken_sides(exports[opset])

        for spec in in_order:
            yield self.verify_and_describe(spec, exports[spec.opset], untaken(spec.opset))

    def write_opset(self, opset: int, specs: Sequence[FileSpec]) -> converter.Export:
        """Write all files of one opset to the staged folder, and return the JAX export that they
        come from.

        The float32 file is written first, and the other precisions are made from it. If it is not
        requested, it is deleted at the end. Files have their final names, because a model contains
        the name of its sidecar.
        """
        options, progress = self.options, self.progress
        float32_name = next((spec.name for spec in specs if spec.precision == "fp32"), None)
        source = self.stage / (float32_name or f"float32-opset{opset}.onnx")
        progress.stage(f"opset {opset}: converting")
        export = convert_model(
            self.subject.model, opset, self.signature, options.layout, options.target
        )
        progress.stage(f"opset {opset}: writing", self.subject.entry.parameters * 4)
        with translate_write_errors(source), self.digests.compute() as on_write:
            values, step = self.subject.weights.arrays, lambda _, size: progress.step(size)
            export.save(source, values=values, progress=step, on_write=on_write)
        for spec in specs:
            if self.stage / spec.name != source:
                self.write_lower_precision_file(source, spec)
            if spec.input == "uint8":
                self.add_preprocessing(spec)
        if float32_name is None:
            source.unlink()
            sidecar_path(source).unlink(missing_ok=True)
        return export

    def write_lower_precision_file(self, source: Path, spec: FileSpec) -> None:
        """Write the file of `spec`, which has a lower precision, from the float32 file `source`.

        An int8 file is calibrated on the user's pictures if there are any.
        """
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
            from zoo.export.calibration import Calibrator, write_best_int8

            calibrator = Calibrator(self.pictures, picture_input, preprocessing, size, batch)
            target, progress = options.target, self.progress
            with translate_write_errors(file):
                calibrated = write_best_int8(source, file, calibrator, inputs, target, progress)
            self.calibrations[file.name] = calibrated[0]
            self.digests.update(calibrated[1])
            return
        with translate_write_errors(file), self.digests.compute() as on_write:
            exact_outputs = entry.config.task.exact
            settings = (options.target, options.scales, exact_outputs)
            write_lower_precision(source, file, spec.precision, inputs, on_write, *settings)

    def add_preprocessing(self, spec: FileSpec) -> None:
        """Rewrite a staged file so that it takes images in uint8, and resizes and normalizes them
        before the network."""
        preprocessing, file = self.subject.entry.preprocessing, self.stage / spec.name
        self.progress.stage(f"{file.name}: preprocessing")
        target = self.options.target
        first = export_preprocessing(
            preprocessing, spec.size or preprocessing.size, spec.opset, spec.batch, target
        )
        joined = converter.join(first.model, ir.load(file), target)
        with translate_write_errors(file), self.digests.compute() as on_write:
            converter.save(joined, file, on_write=on_write)

    def describe_untaken_sides(self, export: converter.Export) -> tuple[str, ...]:
        """Return a sentence for each side of the network's program that no sample takes.

        A side is a branch, a number of loop iterations (none, one, several), or an index below or
        above its bounds. The result is empty if the files are not verified.
        """
        if self.samples is None:
            return ()
        from zoo.export.verify import describe_untaken_sides

        return describe_untaken_sides(export, self.samples(), self.subject.weights.arrays)

    def verify_and_describe(
        self, spec: FileSpec, export: converter.Export, untaken: tuple[str, ...]
    ) -> ExportedFile:
        """Verify a staged file, unless verification is off, and return the file with its record for
        the manifest.

        **Arguments:**

        - `spec`: description of the file.
        - `export`: the JAX export that the file comes from.
        - `untaken`: sentences about sides of the program that no sample takes
          (`describe_untaken_sides`). They are ignored if verification is off.
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
            files=tuple(spec.sibling_path(path.name) for path in paths),
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
        """Compare a staged file with JAX on the samples.

        **Returns** the verification, the session that ran the file, and the oldest version of ONNX
        Runtime in which the file is right. The version is None if the file failed or had to be
        emulated.
        """
        from zoo.common.runtime import session
        from zoo.export.other_runtimes import find_minimum_runtime
        from zoo.export.verify import choose_limit, to_runnable, verify_file

        file, subject = self.stage / spec.name, self.subject
        limit = choose_limit(spec.precision, subject.weights.provenance.kind, subject.entry.config)
        open_session = cache(partial(session, to_runnable(file, spec.precision)))
        verification = verify_file(
            file, samples, spec.precision, limit=limit, open_session=open_session
        )
        is_run_unchanged = verification.passed and PRECISIONS[spec.precision].on_cpu
        return (
            verification,
            open_session(),
            find_minimum_runtime(file, samples[0], limit) if is_run_unchanged else None,
        )

    def _activations(self, spec: FileSpec) -> dict[str, Any]:
        """Return the fields of the manifest's record about integer activations: their calibration
        or their scales.

        The result is empty if the precision does not have integer activations.
        """
        if not PRECISIONS[spec.precision].scales_activations:
            return {}
        calibration = self.calibrations.get(spec.name)
        return {"calibration": calibration} if calibration else {"scales": self.options.scales}


@contextmanager
def open_production(
    plan: Plan, subject: Subject, progress: Progress, tower: str = ""
) -> Generator[Production]:
    """Yield a `Production` that writes the files of a plan to a staged folder.

    The staged folder exists while the block runs. If the plan says to verify, a thread computes the
    samples in JAX meanwhile.

    **Arguments:**

    - `plan`: the files to write.
    - `subject`: the network whose files are written, or one of its towers.
    - `progress`: reports progress.
    - `tower`: name of that tower in the plan; empty for the full network.
    """
    signature = next(file for file in plan.files if file.tower == tower)
    with ExitStack() as stack:
        samples = None
        if plan.options.verify:
            # ONNX Runtime is imported only where a file is verified.
            from zoo.export.verify import plan_samples

            tasks = plan_samples(subject.entry, subject.model, subject.weights.arrays, signature)
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
    """Convert a model to an ONNX graph, and return the export. Its initializers have names and
    shapes, but no values yet.

    **Arguments:**

    - `model`: the module with shapes in place of arrays. It contains exactly one network of the
      zoo.
    - `opset`: ONNX opset, or None for the target's own.
    - `signature`: inputs and outputs of the file.
    - `layout`: `4d` or `3d`, the number of axes of `Attention`'s inputs, or None for the target's
      own.
    - `target`: name of the runtime that the file is for.
    """
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
        input_names=config.input_names,
    )
    if signature.size is None:
        name_open_dimensions(export.model.graph, config.stride)
    return export


def name_open_dimensions(graph: ir.Graph, stride: int) -> None:
    """Rename the open dimensions of a graph's inputs and outputs, in place, to the names that other
    exporters use.

    The trace calls the grid of patches `h` x `w`. If the patch size (`stride`) is 16, `16*h`
    becomes `height`, `h` becomes `grid_height`, and `4*h` in a map of finer patches becomes
    `height/4`. Numbers of tokens such as `h*w + 5` become `sequence_length`, further ones
    `sequence_length_1` and so on. The names of batches are kept.
    """
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
