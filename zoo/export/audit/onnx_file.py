"""Check one ONNX file. Each check is independent, so that a failure does not hide others."""

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
from zoo.export.verify import to_runnable

MAX_NODES = 1_000_000
"""More nodes than any network has after functions are expanded."""

MAX_CALL_DEPTH = 100
"""Largest depth of functions that call each other."""

UNREADABLE = (DecodeError, SerdeError, OSError, ValueError, TypeError, KeyError)
"""Exceptions that reading a damaged file may raise."""


def check_model(file: Path) -> Finding:
    """Return the finding of ONNX's checker, including types and shapes."""
    check_errors = (checker.ValidationError, shape_inference.InferenceError, RuntimeError)
    try:
        # The checker gets the path, because it then reads sidecars and has no limit of 2 GB.
        checker.check_model(file, full_check=True)
    except (*check_errors, *UNREADABLE) as error:
        return Finding("checker", False, first_line(error))
    return Finding("checker", True, "onnx.checker with shapes")


def read_graph(file: Path, sidecars: Collection[str]) -> tuple[Finding, ir.Model | None]:
    """Return the finding about a model, and the model. It is None if it is damaged or has tensors
    in other files than its sidecars."""
    if not file.is_file():
        return Finding("graph", False, "it is no ordinary file"), None
    try:
        model = ir.load(file)
    except UNREADABLE as error:
        return Finding("graph", False, first_line(error)), None
    if not all(isinstance(node.op_type, str) for node in model.graph.all_nodes()):
        return Finding("graph", False, "the name of an operator is no text"), None
    if (node_count := count_expanded_nodes(model)) > MAX_NODES:
        return Finding("graph", False, f"its functions become {node_count} nodes"), None
    tensor_files = {
        str(value.const_value.location)
        for graph in (model.graph, *model.graph.subgraphs())
        for value in graph.initializers.values()
        if isinstance(value.const_value, ir.ExternalTensor)
    }
    other_files = sorted(tensor_files - set(sidecars))
    if other_files:
        return Finding("graph", False, f"it has tensors in {ascii(other_files)[:200]}"), None
    return Finding("graph", True, f"opset {model.opset_imports.get('')}"), model


def count_expanded_nodes(model: ir.Model) -> int:
    """Return the number of nodes of a model after its functions are expanded. The number may double
    with each call.

    It is more than `MAX_NODES` if a function calls itself or calls are nested too deeply.
    """
    counts: dict[ir.OperatorIdentifier, int] = {}

    def count_nodes(nodes: Iterable[ir.Node], callers: tuple[ir.OperatorIdentifier, ...]) -> int:
        count = 0
        for node in nodes:
            name = node.op_identifier()
            if name in callers or len(callers) == MAX_CALL_DEPTH:
                return MAX_NODES + 1
            if name in model.functions and name not in counts:
                counts[name] = count_nodes(model.functions[name].all_nodes(), (*callers, name))
            count += counts.get(name, 1)
        return count

    return count_nodes(model.graph.all_nodes(), ())


def check_fused(model: ir.Model, expected: Mapping[str, int]) -> Finding:
    """Return the finding about the fused operators of a graph, compared with the expected
    numbers."""
    fused = {op: count for op, count in converter.report(model).fused.items() if count}
    is_equal = fused == {op: count for op, count in expected.items() if count}
    remark = "" if is_equal else f", the manifest says {_counts(expected)}"
    return Finding("fused", is_equal, f"{_counts(fused)}{remark}")


def open_model(
    file: Path, precision: Precision, provider: str
) -> tuple[Finding, runtime.Session | None]:
    """Return the finding about loading a file in ONNX Runtime, and the session. The session is None
    if the file does not load."""
    try:
        session = runtime.session(to_runnable(file, precision), provider)
    except (*runtime.ERRORS, *UNREADABLE) as error:
        return Finding("loads", False, first_line(error)), None
    traits = PRECISIONS[precision]
    remark = "" if traits.on_cpu else f", {traits.half} emulated"
    return Finding("loads", True, f"{provider}{remark}"), session


def warn_about_runtime(minimum: str | None, loads: bool) -> Iterator[Finding]:
    """Yield a finding if the file passed in newer versions of ONNX Runtime only than the installed
    one."""
    if minimum and is_older(runtime.RELEASE, minimum):
        advice = "" if loads else ": install that or a newer one"
        detail = f"it was run in {minimum}, and {runtime.RELEASE} is here{advice}"
        yield Finding("runtime", loads, detail)


def count_fallback_nodes(
    session: runtime.Session, provider: str
) -> tuple[Finding, dict[str, Counter[str]]]:
    """Return the finding about the nodes that run on other providers than the chosen one, and their
    numbers by provider and operator. The finding always passes."""
    nodes_by_provider = runtime.placed(session)
    if nodes_by_provider is None:
        return Finding("fallback", True, f"not known to {runtime.VERSION}"), {}
    total = sum(counts.total() for counts in nodes_by_provider.values())
    fallback = {name: counts for name, counts in nodes_by_provider.items() if name != provider}
    lines = [
        f"{counts.total()} of {total} nodes on {name}: {_counts(dict(counts.most_common()))}"
        for name, counts in fallback.items()
    ]
    return Finding("fallback", True, "; ".join(lines) or f"none of {total} nodes"), fallback


def check_signature(
    session: runtime.Session, inputs: Collection[Tensor], outputs: Collection[Tensor]
) -> Finding:
    """Return the finding about names, types and shapes of the inputs and outputs in ONNX
    Runtime."""
    faults = []
    inputs_declared, outputs_declared = session.get_inputs(), session.get_outputs()
    for verb, args, expected in (
        ("takes", inputs_declared, inputs),
        ("gives", outputs_declared, outputs),
    ):
        declared = [declared_tensor(argument) for argument in args]
        if declared != list(expected):
            tensors_listed = "; ".join(map(str, expected))
            faults.append(
                f"it {verb} {'; '.join(map(str, declared))}, the manifest says {tensors_listed}"
            )
    names = ", ".join(tensor.name for tensor in (*inputs, *outputs))
    return Finding("signature", not faults, "; ".join(faults) or names)


def _counts(counts: Mapping[str, int]) -> str:
    """Return numbers of operators in words."""
    return ", ".join(f"{count} {op}" for op, count in sorted(counts.items())) or "none"
