"""``to_onnx``: all the stages in a row."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from converter import passes
from converter.errors import SpecError
from converter.files import save as saving
from converter.graph import Graph, Node
from converter.graph.names import Names
from converter.jaxprs.specs import Spec, arguments
from converter.jaxprs.staged import unstaged
from converter.judge.samples import samples
from converter.judge.watch import Watch
from converter.lower import OPSETS, lower
from converter.result import Export, report
from converter.settings import AttentionLayout, Settings
from converter.tidy import tidy
from converter.trace import source_line, trace

logger = logging.getLogger(__name__)


def to_onnx(
    fn: Callable[..., Any],
    specs: Sequence[Spec] | None = None,
    *,
    params: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    opset: int = 23,
    path: str | os.PathLike[str] | None = None,
    attention_layout: AttentionLayout = "4d",
    strict: bool = False,
    fold: bool = True,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Export:
    """Convert a JAX function or an Equinox module to ONNX.

    Args:
        fn: called as ``fn(*inputs)``, or ``fn(params, *inputs)`` where ``params`` is given. Or what
            ``jax.jit(fn).trace(...)`` gives, which has its own ``specs`` and ``kwargs``.
        specs: one per input: a shape (float32), a (shape, dtype) pair, an array or a
            ``jax.ShapeDtypeStruct``, or a pytree of these. A dimension may be a name,
            ``("B", 3, 224, 224)``. Inputs are named after the arguments of ``fn``, those in a
            pytree by their path (``batch.image``). PRNG keys, ``jax.random.key(0)`` as a spec, are
            uint32 [..., 2] in the file, as ``jax.random.key_data`` has them; so are those that
            ``fn`` returns. What is drawn from them follows ``jax_threefry_partitionable`` as it
            is set during the conversion.
        params: a pytree whose array leaves become initializers named by their path; leaves may be
            abstract (``jax.ShapeDtypeStruct``), their values are then given to ``Export.save``.
        kwargs: arguments by name: such a spec for an input, and numbers, words and functions, which
            stay what they are: ``{"mask": ("B", 16), "training": False}``.
        opset: 17 to 26. From 23 on attention and rotary embeddings are fused.
        path: also save the model there.
        attention_layout: operands of ``Attention``, [batch, heads, positions, width] (``"4d"``)
            or [batch, positions, heads * width] (``"3d"``).
        strict: do what JAX does for every input, NaN and infinities included, where ONNX's operator
            does not: slower. ``Report.deviations`` says what it would change, ``docs/exactness.md``
            what there is.
        fold: let scales and shifts by parameters, as of a batch norm at inference or LayerScale,
            change the weights of the convolution or product before them, instead of being
            operators.
        input_names, output_names: instead of the names found in ``fn``, which get a number
            (``x_1``) where something else has them.

    With ``CONVERTER_CHECK=1`` in the environment every step is evaluated on drawn inputs.

    Raises:
        SpecError: an argument cannot be used.
        Unsupported: a primitive has no rule at this opset.
        CheckError: a step changed a number, which is asked where the environment says so.
    """
    if opset not in OPSETS:
        raise SpecError(f"opset must be {OPSETS[0]} to {OPSETS[-1]}, received {opset}")
    if attention_layout not in ("4d", "3d"):
        raise SpecError(f"attention_layout must be '4d' or '3d', received {attention_layout!r}")
    dump = _Dump(os.environ.get("CONVERTER_DUMP"))
    fn, specs, kwargs = unstaged(fn, specs, kwargs)
    retrace = partial(trace, fn, specs, params, kwargs)
    graph = retrace()
    _rename(graph, input_names, output_names)
    dump("trace", graph)
    settings = Settings(opset, attention_layout, strict, fold)
    if os.environ.get("CONVERTER_CHECK"):
        export = _checked(graph, settings, dump, retrace)
    else:
        passes.run(graph, settings, dump)
        export = finish(graph, settings, retrace)
    export = replace(export, fill=arguments(specs, kwargs).fill)
    dump("model", export.model.graph)
    if path is not None:
        export.save(path)
    return export


def finish(graph: Graph, settings: Settings, retrace: Callable[[], Graph]) -> Export:
    """What follows the passes: the model, its parameters bound if they have values."""
    model = tidy(lower(graph, settings.opset))
    found = report(model, settings.notes, _sentences(settings.deviations))
    export = Export(model, graph, found, retrace)
    if not saving.missing(model, graph):
        saving.bind(model, graph)
    return export


def _checked(graph: Graph, settings: Settings, dump: _Dump, retrace: Callable[[], Graph]) -> Export:
    """All stages, evaluated on drawn inputs after each; a file is run if it has all parameters."""
    watch = Watch(retrace, [*samples(graph)])

    def both(stage: str, graph: Graph) -> None:
        dump(stage, graph)
        watch(stage, graph)

    passes.run(graph, settings, both)
    export = finish(graph, settings, retrace)
    if not saving.missing(export.model, graph):
        watch.file(export)
    return export


class _Dump:
    """Writes each stage as text into ``CONVERTER_DUMP``, where that is set."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None
        self._count = 0

    def __call__(self, stage: str, content: object) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{self._count:02}_{stage.replace(' ', '_')}.txt"
            (self._folder / name).write_text(f"{content}\n")
        self._count += 1


def _rename(graph: Graph, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
    """Given names stand; those found in ``fn`` get a number where something else has them.

    Parameters are bound by their names, so these stand too; inputs go before outputs.
    """
    for given, count, what in (
        (inputs, len(graph.inputs), "input_names"),
        (outputs, len(graph.outputs), "output_names"),
    ):
        if given is not None and (len(given) != count or len(set(given)) != count):
            raise SpecError(f"{what} needs {count} different names, received {list(given)}")
    explicit = [*(inputs or ()), *(outputs or ())]
    fixed = [*(v.name for v in graph.params), *explicit]
    clash = [name for name, times in Counter(fixed).items() if times > 1]
    if clash:
        raise SpecError(
            f"{clash[0]!r} can name only one of a model's parameters, inputs and outputs; "
            "give another name in input_names or output_names"
        )
    free = Names(fixed)
    found = [v.name for v in graph.inputs] if inputs is None else []
    for value, name in zip(graph.inputs, inputs or map(free.take, found), strict=True):
        value.name = name
    graph.output_names = list(outputs or map(free.take, graph.output_names))


def _sentences(deviations: Sequence[tuple[str, Node]]) -> list[str]:
    """Each sentence once, with how many nodes it is true of and where the first comes from."""
    nodes: dict[str, list[Node]] = {}
    for sentence, node in deviations:
        nodes.setdefault(sentence, []).append(node)
    return [
        f"{sentence} ({len(found)} {found[0].op}, first from {source_line(found[0])})"
        for sentence, found in nodes.items()
    ]
