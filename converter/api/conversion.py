"""``to_onnx``: all the stages in a row."""

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
from converter.fuse.match import grouped_near_misses
from converter.ir import Graph
from converter.legalize.deviations import deviations
from converter.lower import lower
from converter.model import saving
from converter.model.results import Export, Metadata, metadata_of, report
from converter.pipeline import passes
from converter.pipeline.settings import PassSettings
from converter.targets import Target
from converter.verify.checking import check
from converter.verify.samples import samples
from converter.verify.watch import Watch

logger = logging.getLogger(__name__)


@accepts_arguments_of(FileRequest)
def to_onnx(request: FileRequest) -> Export:
    """Convert a JAX function or an Equinox module to ONNX.

    Args:
        fn: called as ``fn(*inputs)``, or ``fn(params, *inputs)`` where ``params`` is given. Or what
            ``jax.jit(fn).trace(...)`` gives, which has its own ``specs`` and ``kwargs``.
        specs: one per input: a shape (float32), a (shape, dtype) pair, an array or a
            ``jax.ShapeDtypeStruct``, or a pytree of these. A dimension may be a name,
            ``("B", 3, 224, 224)``. Inputs are named after the arguments of ``fn``, those in a
            pytree by their path (``batch.image``). Complex inputs, parameters and outputs are real
            in the file, the real and the imaginary parts on a last axis of two. PRNG keys,
            ``jax.random.key(0)`` as a spec, are uint32 [..., 2] in the file, as
            ``jax.random.key_data`` has them; so are those that ``fn`` returns. What is drawn from
            them follows ``jax_threefry_partitionable`` as it is set during the conversion.
        params: a pytree whose array leaves become initializers named by their path; leaves may be
            abstract (``jax.ShapeDtypeStruct``), their values are then given to ``Export.save``.
        kwargs: arguments by name: such a spec for an input, and numbers, words and functions, which
            stay what they are: ``{"mask": ("B", 16), "training": False}``.
        constraints: what holds of named dimensions, by ``>=``, ``<=`` or ``==``, as
            ``jax.export.SymbolicScope`` takes it: ``["B >= 2", "mod(h, 16) == 0", "h == w"]``.
            Every name is at least 1. The file's metadata repeats them.
        opset: one of ``converter.OPSETS``, by default what the target takes best; attention and
            rotary embeddings are fused from the opset on that has operators for them.
        path: also save the model there.
        external_data: its weights go into ``<name>_data`` beside it, which they do anyway above
            2 GB; false forbids that.
        attention_layout: operands of ``Attention``, [batch, heads, positions, width] (``"4d"``)
            or [batch, positions, heads * width] (``"3d"``); by default what the target runs best,
            which for ONNX Runtime depends on where the operands come from.
        strict: do what JAX does for every input, NaN and infinities included, where ONNX's operator
            does not: slower. ``Report.deviations`` says what it would change, ``docs/exactness.md``
            what there is.
        fold: let scales and shifts by parameters, as of a batch norm at inference or LayerScale,
            change the weights of the convolution or product before them, instead of being
            operators.
        fuse: false to recognise nothing, or a list of what to: ``["attention", "layer_norm"]``. A
            wrong name is answered with all of them. ``Report.newer`` counts what a newer opset
            would fuse.
        target: the runtime that the file is for, of ``converter.TARGETS``: its missing and wrong
            kernels are avoided, and ``docs/how-to/conversion.md`` says what each gets. Or
            ``"portable"``, what all of them run; or ``"standard"``, what ONNX defines and nothing
            else, for runtimes that have it all.
        input_names: instead of the names found in ``fn``, which get a number (``x_1``) where
            something else has them.
        output_names: the same for outputs.
        channels_first: names of inputs and outputs that are [batch, space…, channels] in the
            function and [batch, channels, space…] in the file.
        verify: compare the file with JAX before it is written, as ``check`` does, on drawn inputs,
            or on these; ``Export.verdict`` has the errors.
        accept_open: names of outputs of which ``verify`` accepts elements that are open: nothing
            says whether roundings explain how they differ.
        metadata: what the file says about itself: texts by name, or a ``Metadata`` with names,
            versions and a description.
        source_lines: each node's ``doc_string`` says where it comes from:
            ``models/layers.py:44 (gelu)``.

    With ``CONVERTER_CHECK=1`` in the environment every step is evaluated on drawn inputs.

    Raises:
        SpecError: an argument cannot be used.
        Unsupported: a primitive has no rule at this opset.
        CheckError: the file is not what JAX computes, where that was to be verified; or a step
            changed a number, which is asked where the environment says so.
    """
    metadata = metadata_of(request.metadata)
    dump = _stage_dumper(os.environ.get("CONVERTER_DUMP"))
    with _freeze_existing_objects():
        graph = request.trace()
        request.runtime.refuse_open(graph)
        dump("trace", graph)
        interface = request.interface(graph)
        checks = os.environ.get("CONVERTER_CHECK")
        call = interface.called(request.call)
        watches = [Watch(request.trace, [*samples(graph)], call)] if checks else []
        passes.run_passes(graph, request, dump, *watches)
        unverified = finish(graph, request, request.trace, metadata, request.source_lines)
    for watch in watches if not saving.missing(unverified.model, graph) else ():
        watch.file(unverified)
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
    """Have Python search for garbage only what is made meanwhile.

    A search of all that JAX holds takes longer than most of the passes together.
    """
    if gc.get_freeze_count():  # somebody has frozen objects who wants them to stay so
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _verify_export(export: Export, request: FileRequest, inputs: Sequence[Any] | None) -> Export:
    """With what ``check`` finds; **raises** `CheckError` if the file is not right."""
    if missing_names := saving.missing(export.model, export.graph):
        raise SpecError(
            f"a file without weights cannot be verified: {missing_names[0]} has no value; "
            "give arrays in params, or check the file that Export.save writes"
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


def finish(
    graph: Graph,
    settings: PassSettings,
    retrace: Callable[[], Graph],
    metadata: Metadata | None = None,
    source_lines: bool = False,
) -> Export:
    """Turn a graph into the model, its parameters bound if they have values."""
    target = settings.runtime
    known_deviations = deviations(target)
    model = clean_up_model(lower(graph, settings.version, target, lines=source_lines), target)
    (metadata or Metadata()).write(model)
    newer = sorted(settings.newer.items())
    report_of_model = replace(
        report(model),
        near_misses=grouped_near_misses(settings.notes),
        deviations=[
            f"{sentence} ({len(nodes)} {nodes[0].op}, first from {source_line(nodes[0])})"
            for sentence, nodes in settings.deviations.items()
        ],
        fails_verification=any(
            known_deviations[nodes[0].op].fails_verification
            for nodes in settings.deviations.values()
            if nodes[0].op in known_deviations
        ),
        newer={opset: Counter(dict(sorted(counts.items()))) for opset, counts in newer},
    )
    export = Export(model, graph, report_of_model, retrace)
    if not saving.missing(model, graph):
        saving.bind(model, graph)
    return export


def clean_up_model(model: ir.Model, target: Target) -> ir.Model:
    """Avoid quirks of the target, merge equal nodes, drop unused nodes, sort, in place.

    Identities stay: the lowering writes one only where an output needs a name of its own.
    """
    target.settle(model)
    output_types = [(graph, [(v.type, v.shape) for v in graph.outputs]) for graph in model.graphs()]
    merge_nodes, drop_nodes = (
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
    )
    Sequential(merge_nodes, drop_nodes, common.TopologicalSortPass())(model)
    # An output may be another node's result now, which was one on the way and had no type.
    for graph, types in output_types:
        for value, (kind, shape) in zip(graph.outputs, types, strict=True):
            value.type, value.shape = kind, shape
    return model


def _stage_dumper(folder: str | None) -> Callable[[str, object], None]:
    """What writes each stage as text into ``CONVERTER_DUMP``, where that is set."""
    numbers = count()

    def dump(stage: str, content: object) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            name = f"{next(numbers):02}_{stage.replace(' ', '_')}.txt"
            (Path(folder) / name).write_text(f"{content}\n", encoding="utf-8")

    return dump
