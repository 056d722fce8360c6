"""Checks of one ONNX file, each for itself: a failure hides none of the others."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx import checker, shape_inference
from onnx_ir.serde import SerdeError

import converter
from converter.opsets import is_older
from zoo.artifacts.choices import Precision
from zoo.artifacts.described_file import declared_tensor
from zoo.artifacts.folder_check import Finding
from zoo.artifacts.schema import Tensor
from zoo.common import runtime
from zoo.common.errors import first_line
from zoo.export.precisions import PRECISIONS
from zoo.export.verify import runnable

MOST_NODES = 1_000_000
"""More than any network has, once functions are expanded."""

DEEPEST_CALLS = 100
"""Functions that call each other in a row."""

UNREADABLE = (DecodeError, SerdeError, OSError, ValueError, TypeError, KeyError)
"""What reading a damaged file may raise."""


def check_model(file: Path) -> Finding:
    """ONNX's own checker, types and shapes included."""
    wrong = (checker.ValidationError, shape_inference.InferenceError, RuntimeError)
    try:
        # By path: then tensors may lie beside the file, and there is no limit of 2 GB.
        checker.check_model(file, full_check=True)
    except (*wrong, *UNREADABLE) as error:
        return Finding("checker", False, first_line(error))
    return Finding("checker", True, "onnx.checker with shapes")


def read_graph(file: Path, sidecars: Collection[str]) -> tuple[Finding, ir.Model | None]:
    """The model, unless it is damaged or has tensors anywhere but in its sidecar."""
    if not file.is_file():
        return Finding("graph", False, "it is no ordinary file"), None
    try:
        model = ir.load(file)
    except UNREADABLE as error:
        return Finding("graph", False, first_line(error)), None
    if not all(isinstance(node.op_type, str) for node in model.graph.all_nodes()):
        return Finding("graph", False, "the name of an operator is no text"), None
    if (total := expanded_nodes(model)) > MOST_NODES:
        return Finding("graph", False, f"its functions become {total} nodes"), None
    places = {
        str(value.const_value.location)
        for graph in (model.graph, *model.graph.subgraphs())
        for value in graph.initializers.values()
        if isinstance(value.const_value, ir.ExternalTensor)
    }
    strange = sorted(places - set(sidecars))
    if strange:
        return Finding("graph", False, f"it has tensors in {ascii(strange)[:200]}"), None
    return Finding("graph", True, f"opset {model.opset_imports.get('')}"), model


def expanded_nodes(model: ir.Model) -> int:
    """How many nodes a model has once its functions are expanded, which may double each other.

    It is more than `MOST_NODES` where a function calls itself, or calls nest too deeply.
    """
    counts: dict[ir.OperatorIdentifier, int] = {}

    def total(nodes: Iterable[ir.Node], above: tuple[ir.OperatorIdentifier, ...]) -> int:
        count = 0
        for node in nodes:
            name = node.op_identifier()
            if name in above or len(above) == DEEPEST_CALLS:
                return MOST_NODES + 1
            if name in model.functions and name not in counts:
                counts[name] = total(model.functions[name].all_nodes(), (*above, name))
            count += counts.get(name, 1)
        return count

    return total(model.graph.all_nodes(), ())


def check_fused(model: ir.Model, expected: Mapping[str, int]) -> Finding:
    """The fused operators that the graph has, against those it should have."""
    fused = {op: count for op, count in converter.report(model).fused.items() if count}
    same = fused == {op: count for op, count in expected.items() if count}
    remark = "" if same else f", the manifest says {_counts(expected)}"
    return Finding("fused", same, f"{_counts(fused)}{remark}")


def open_model(
    file: Path, precision: Precision, provider: str
) -> tuple[Finding, runtime.Session | None]:
    """A session in ONNX Runtime."""
    try:
        live = runtime.session(runnable(file, precision), provider)
    except (*runtime.ERRORS, *UNREADABLE) as error:
        return Finding("loads", False, first_line(error)), None
    traits = PRECISIONS[precision]
    remark = "" if traits.on_cpu else f", {traits.half} emulated"
    return Finding("loads", True, f"{provider}{remark}"), live


def newer_runtime(minimum: str | None, loads: bool) -> Iterator[Finding]:
    """Finding that a file was run in newer versions than the one that is here, if so."""
    if minimum and is_older(runtime.RELEASE, minimum):
        advice = "" if loads else ": install that or a newer one"
        detail = f"it was run in {minimum}, and {runtime.RELEASE} is here{advice}"
        yield Finding("runtime", loads, detail)


def elsewhere(live: runtime.Session, provider: str) -> tuple[Finding, dict[str, Counter[str]]]:
    """The nodes that the chosen provider leaves to others. Good to know, and not wrong."""
    placed = runtime.placed(live)
    if placed is None:
        return Finding("fallback", True, f"not known to {runtime.VERSION}"), {}
    total = sum(counts.total() for counts in placed.values())
    others = {name: counts for name, counts in placed.items() if name != provider}
    lines = [
        f"{counts.total()} of {total} nodes on {name}: {_counts(dict(counts.most_common()))}"
        for name, counts in others.items()
    ]
    return Finding("fallback", True, "; ".join(lines) or f"none of {total} nodes"), others


def check_signature(
    live: runtime.Session, inputs: Collection[Tensor], outputs: Collection[Tensor]
) -> Finding:
    """Names, types and shapes of what a file takes and gives, as ONNX Runtime sees them."""
    wrong = []
    takes, gives = live.get_inputs(), live.get_outputs()
    for what, args, expected in (("takes", takes, inputs), ("gives", gives, outputs)):
        seen = [declared_tensor(each) for each in args]
        if seen != list(expected):
            listed = "; ".join(map(str, expected))
            wrong.append(f"it {what} {'; '.join(map(str, seen))}, the manifest says {listed}")
    names = ", ".join(tensor.name for tensor in (*inputs, *outputs))
    return Finding("signature", not wrong, "; ".join(wrong) or names)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {op}" for op, count in sorted(counts.items())) or "none"
