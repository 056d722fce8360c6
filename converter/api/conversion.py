"""``to_onnx``, which runs all stages of a conversion."""

import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import Sequential, common

from converter.api.request import FileRequest, accepts_arguments_of
from converter.errors import CheckError, SpecError
from converter.frontend.trace import source_line
from converter.fuse.match import group_near_misses
from converter.ir import Graph
from converter.legalize.deviations import deviations
from converter.lower import lower
from converter.model import saving
from converter.model.results import Export, Metadata, report, to_metadata
from converter.pipeline import passes
from converter.pipeline.settings import PassSettings
from converter.targets import Target
from converter.verify.checking import check
from converter.verify.samples import draw_basic_samples
from converter.verify.watch import PassChecker

logger = logging.getLogger(__name__)


@accepts_arguments_of(FileRequest)
def to_onnx(request: FileRequest) -> Export:
    """Convert a JAX function or an Equinox module to ONNX.

    Arguments:
        fn: the function, called as ``fn(*inputs)``, or as ``fn(params, *inputs)`` if ``params`` is
            given. It may be the result of ``jax.jit(fn).trace(...)``, which has its own ``specs``
            and ``kwargs``.
        specs: one spec for each input: a shape (float32), a (shape, dtype) pair, an array, a
            ``jax.ShapeDtypeStruct``, or a pytree of these. A dimension may be a name, ``("B", 3,
            224, 224)``. Inputs are named after the arguments of ``fn``; inputs in a pytree are
            named by their path (``batch.image``). Complex inputs, parameters and outputs are real
            in the file, with the real and imaginary parts on a last axis of size two. PRNG keys
            (``jax.random.key(0)`` as a spec) are uint32 [..., 2] in the file, as in
            ``jax.random.key_data``; so are keys that ``fn`` returns. The numbers drawn from them
            follow the value of ``jax_threefry_partitionable`` during the conversion.
        params: a pytree whose array leaves become initializers named by their path. Leaves may be
            abstract (``jax.ShapeDtypeStruct``); their values are then passed to ``Export.save``.
        kwargs: keyword arguments of ``fn``: a spec for an input, or a constant such as a number,
            string or function: ``{"mask": ("B", 16), "training": False}``.
        constraints: relations of named dimensions with ``>=``, ``<=`` or ``==``, as
            ``jax.export.SymbolicScope`` takes them: ``["B >= 2", "mod(h, 16) == 0", "h == w"]``.
            Every named dimension is at least 1. The metadata of the file repeats the constraints.
        opset: one of ``converter.OPSETS``; by default the one that the target supports best.
            Attention and rotary embeddings are fused from the opset on that has operators for them.
        path: a path at which the model is also saved.
        external_data: true to write the weights to a separate file ``<name>_data``, which always
            happens above 2 GB; false to forbid it. It needs ``path``.
        attention_layout: layout of the operands of ``Attention``: [batch, heads, positions, width]
            (``"4d"``) or [batch, positions, heads * width] (``"3d"``). By default it is the faster
            one for the target; for ONNX Runtime this depends on the operations that compute the
            operands.
        strict: true to return JAX's results for every input, including NaN and infinities, even if
            the results of the ONNX operator are different. This is slower. ``Report.deviations``
            lists the operators that it would change; ``docs/exactness.md`` describes all of them.
        fold: true to fold scales and shifts by parameters, such as a batch norm at inference or
            LayerScale, into the weights of the convolution or matrix product before them.
        fuse: false to fuse nothing, or a list of the structures to fuse: ``["attention",
            "layer_norm"]``. The error for an unknown name lists all of them. ``Report.newer``
            contains the number of structures that would be fused at a newer opset.
        target: the runtime that the file is written for, one of ``converter.TARGETS``. Operators
            that it does not support or computes wrongly are avoided; see
            ``docs/how-to/conversion.md``. With ``"portable"``, the file can run on all targets.
            With ``"standard"``, the file only follows the ONNX standard; it is for runtimes that
            implement the whole standard.
        input_names: names of all inputs, in place of those found in ``fn``. All names of inputs,
            outputs and parameters must be different. A name found in ``fn`` that is already used
            gets a number (``x_1``).
        output_names: names of all outputs, in place of those found in ``fn``.
        channels_first: names of inputs and outputs that are [batch, space…, channels] in the
            function and [batch, channels, space…] in the file.
        verify: true to compare the file with JAX before it is written, as ``check`` does, on drawn
            inputs; or the inputs to use. ``Export.verdict`` has the errors.
        accept_open: names of outputs for which ``verify`` accepts open elements. The difference of
            an open element may be a rounding error, but there is no evidence that it is.
        metadata: metadata of the file: a dictionary of strings, or a ``Metadata`` with names,
            versions and a description.
        source_lines: true to write the source line of each node into its ``doc_string``:
            ``models/layers.py:44 (gelu)``.

    With ``CONVERTER_CHECK=1`` in the environment, every step of the conversion is evaluated on
    drawn inputs.

    Returns:
        The ONNX model with its graph and report, and with its verdict if ``verify`` was requested.
        ``Export.save`` writes it.

    Raises:
        SpecError: an argument cannot be used.
        UnsupportedError: the function cannot be traced, or a primitive has no rule at this opset.
        CheckError: ``verify`` found that the file does not compute what JAX computes, or a step
            changed a number while ``CONVERTER_CHECK`` was set.
    """
    metadata = to_metadata(request.metadata)
    dump = _stage_dumper(os.environ.get("CONVERTER_DUMP"))
    with _freeze_existing_objects():
        graph = request.trace(request.kept_calls)
        request.runtime.check_fixed_sizes(graph)
        dump("trace", graph)
        interface = request.interface(graph)
        checks = os.environ.get("CONVERTER_CHECK")
        call = interface.wrap(request.call)
        watches = [PassChecker(request.trace, [*draw_basic_samples(graph)], call)] if checks else []
        passes.run_passes(graph, request, dump, *watches)
        unverified = build_export(graph, request, request.trace, metadata, request.source_lines)
    for watch in watches if not saving.missing_parameters(unverified.model, graph) else ():
        watch.check_file(unverified)
    export = replace(unverified, interface=interface)
    dump("model", export.model.graph)
    verify = request.verify
    if not isinstance(verify, bool) or verify:
        drawn = None if isinstance(verify, bool) else verify
        export = _verify_export(export, request, drawn)
    if request.path is not None:
        export.save(request.path, external_data=request.external_data)
    return export


@contextmanager
def _freeze_existing_objects() -> Iterator[None]:
    """Exclude the objects that exist now from garbage collection while the context is active.

    Garbage collection would search all objects that belong to JAX, which takes longer than most of
    the passes together. The context does nothing if the caller has already frozen objects.
    """
    if gc.get_freeze_count():
        # Unfreezing would also unfreeze the objects that the caller has frozen.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _verify_export(export: Export, request: FileRequest, inputs: Sequence[Any] | None) -> Export:
    """Compare the export with JAX, and return a copy with its verdict, whose report has the
    branches that did not run.

    Arguments:
        inputs: arrays for the function; None to draw inputs.

    Raises:
        SpecError: parameters have no values, so that the file cannot be run.
        CheckError: an output differs from JAX by more than its tolerance. The message names the
            output and, where there is one, an option that accepts or mends the difference.
    """
    if missing_names := saving.missing_parameters(export.model, export.graph):
        raise SpecError(
            f"a file without weights cannot be verified: {missing_names[0]} has no value; "
            "pass arrays in params, or check the file that Export.save writes"
        )
    verdict = check(export, request.call, inputs, accept_open=request.accept_open)
    if not verdict.passed:
        difference, advice = verdict.differences[0], ""
        if difference.open:
            advice = f"; accept_open=[{difference.output!r}] accepts that"
        elif export.report.deviations and not request.strict:
            advice = f"; strict=True may mend it, since {export.report.deviations[0]}"
        raise CheckError(
            f"the file is not what JAX computes: {difference}{advice}; "
            "converter.bisect names the step that changes it"
        )
    verified = replace(export.report, untaken=verdict.untaken)
    return replace(export, verdict=verdict, report=verified)


def build_export(
    graph: Graph,
    settings: PassSettings,
    retrace: Callable[[], Graph],
    metadata: Metadata | None = None,
    source_lines: bool = False,
) -> Export:
    """Return the export of a graph after all passes.

    The graph is lowered to an ONNX model, the model is cleaned up, and its report is written. If
    every parameter has a value, the values are bound to the model's initializers.

    Arguments:
        settings: target, opset and options. The passes have also recorded deviations, near misses
            and newer fusions in it, which are copied to the report.
        retrace: a function that returns the graph before any pass. It is evaluated when the export
            is checked.
        metadata: metadata of the file; None for the default.
        source_lines: true to write the source line of each node into its ``doc_string``.
    """
    target = settings.runtime
    known_deviations = deviations(target)
    model = clean_up_model(
        lower(graph, settings.selected_opset, target, lines=source_lines), target
    )
    (metadata or Metadata()).write(model)
    newer = sorted(settings.newer.items())
    found_deviations = [
        known_deviations[nodes[0].op]
        for nodes in settings.deviations.values()
        if nodes[0].op in known_deviations
    ]
    report_of_model = replace(
        report(model),
        near_misses=group_near_misses(settings.near_misses),
        deviations=[
            f"{sentence} ({len(nodes)} {nodes[0].op}, first from {source_line(nodes[0])})"
            for sentence, nodes in settings.deviations.items()
        ],
        absolute_functions={
            op.name: deviation.absolute_magnitude
            for deviation in sorted(found_deviations, key=lambda d: d.absolute_magnitude)
            for op in deviation.absolute_functions
        },
        fails_verification=any(deviation.fails_verification for deviation in found_deviations),
        newer={opset: Counter(dict(sorted(counts.items()))) for opset, counts in newer},
    )
    export = Export(model, graph, report_of_model, retrace)
    if not saving.missing_parameters(model, graph):
        saving.bind(model, graph)
    return export


def clean_up_model(model: ir.Model, target: Target) -> ir.Model:
    """Remove the target's quirks from the model, merge equal nodes, drop unused nodes and sort the
    rest.

    The model is changed in place and returned; its outputs keep their types and shapes. Identity
    nodes are kept, because the lowering emits them only if an output needs a separate name.
    """
    target.remove_quirks(model)
    output_types = [(graph, [(v.type, v.shape) for v in graph.outputs]) for graph in model.graphs()]
    merge_nodes, drop_nodes = (
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
    )
    Sequential(merge_nodes, drop_nodes, common.TopologicalSortPass())(model)
    # An output may now be the result of another node, whose type was not set because it was an
    # intermediate value.
    for graph, types in output_types:
        for value, (kind, shape) in zip(graph.outputs, types, strict=True):
            value.type, value.shape = kind, shape
    return model


def _stage_dumper(folder: str | None) -> Callable[[str, object], None]:
    """Return a function that writes the text of a stage into ``folder``, for debugging.

    It takes the stage's name and its content, and writes ``str(content)`` to a numbered file such
    as ``00_trace.txt``. If ``folder`` is None or empty, the function does nothing.
    """
    numbers = count()

    def dump(stage: str, content: object) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            name = f"{next(numbers):02}_{stage.replace(' ', '_')}.txt"
            (Path(folder) / name).write_text(f"{content}\n", encoding="utf-8")

    return dump
