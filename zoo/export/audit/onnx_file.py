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
"""Number of nodes above which a file is refused. No network has as many after its functions are
expanded."""

MAX_CALL_DEPTH = 100
"""Largest depth of functions that call each other."""

UNREADABLE = (DecodeError, SerdeError, OSError, ValueError, TypeError, KeyError)
"""Exceptions that reading a damaged file may raise."""


def check_model(file: Path) -> Finding:
    """Check a file with ONNX's checker, including types and shapes, and return the finding."""
    check_errors = (checker.ValidationError, shape_inference.InferenceError, RuntimeError)
    try:
        # The checker gets the path, because it then reads sidecars and has no limit of 2 GB.
        checker.check_model(file, full_check=True)
    except (*check_errors, *UNREADABLE) as error:
        return Finding("checker", False, first_line(error))
    return Finding("checker", True, "onnx.checker with shapes")


def read_graph(file: Path, sidecars: Collection[str]) -> tuple[Finding, ir.Model | None]:
    """Read an ONNX file that is not trusted, and return a finding and the model.

    `sidecars` are the names of the files that may hold its tensors. The finding fails, and the
    model is None, if the file is damaged, refers to other files, or has functions that expand to
    more than `MAX_NODES` nodes.
    """
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
    """Return the number of nodes that a model has after its functions are expanded.

    The number is computed without the expansion, because it may double with each call. It is
    `MAX_NODES + 1` or more if a function calls itself, or if calls are nested deeper than
    `MAX_CALL_DEPTH`.
    """
    counts: dict[ir.OperatorIdentifier, int] = {}

    def count_nodes(nodes: Iterable[ir.Node], callers: tuple[ir.OperatorIdentifier, ...]) -> int:
        """Return the expanded number of these nodes. `callers` are the functions that are being
        expanded."""
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
    """Count the fused operators of a graph, and return the finding whether the numbers are as
    expected.

    `expected` are numbers of operators by name, from the manifest.
    """
    fused = {op: count for op, count in converter.report(model).fused.items() if count}
    is_equal = fused == {op: count for op, count in expected.items() if count}
    remark = "" if is_equal else f", the manifest says {_describe_counts(expected)}"
    return Finding("fused", is_equal, f"{_describe_counts(fused)}{remark}")


def open_model(
    file: Path, precision: Precision, provider: str
) -> tuple[Finding, runtime.Session | None]:
    """Load a file in ONNX Runtime, and return a finding and the session.

    If the file does not load, the finding fails and the session is None. `precision` is that of the
    file; bfloat16 is emulated on CPUs.
    """
    try:
        session = runtime.session(to_runnable(file, precision), provider)
    except (*runtime.ERRORS, *UNREADABLE) as error:
        return Finding("loads", False, first_line(error)), None
    traits = PRECISIONS[precision]
    remark = "" if traits.on_cpu else f", {traits.half} emulated"
    return Finding("loads", True, f"{provider}{remark}"), session


def warn_about_runtime(minimum: str | None, loads: bool) -> Iterator[Finding]:
    """Yield a finding if the installed ONNX Runtime is older than `minimum`.

    `minimum` is the oldest version in which the file was right. `loads` is whether the file loads
    in the installed version. The finding passes if it does.
    """
    if minimum and is_older(runtime.RELEASE, minimum):
        advice = "" if loads else ": install that or a newer one"
        detail = f"it was run in {minimum}, and {runtime.RELEASE} is here{advice}"
        yield Finding("runtime", loads, detail)


def count_fallback_nodes(
    session: runtime.Session, provider: str
) -> tuple[Finding, dict[str, Counter[str]]]:
    """Count the nodes of a session that run on other execution providers than the chosen one.

    **Returns** a finding, which always passes, and the numbers by provider and operator. The
    numbers are empty if ONNX Runtime cannot record the providers of nodes.
    """
    nodes_by_provider = runtime.read_placement(session)
    if nodes_by_provider is None:
        return Finding("fallback", True, f"not known to {runtime.VERSION}"), {}
    total = sum(counts.total() for counts in nodes_by_provider.values())
    fallback = {name: counts for name, counts in nodes_by_provider.items() if name != provider}
    lines = [
        f"{counts.total()} of {total} nodes on {name}: "
        f"{_describe_counts(dict(counts.most_common()))}"
        for name, counts in fallback.items()
    ]
    return Finding("fallback", True, "; ".join(lines) or f"none of {total} nodes"), fallback


def check_signature(
    session: runtime.Session, inputs: Collection[Tensor], outputs: Collection[Tensor]
) -> Finding:
    """Compare the inputs and outputs of a session with the manifest, and return the finding.

    Names, types, shapes (also the names of open sizes) and the order have to be equal. `inputs` and
    `outputs` are the manifest's.
    """
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


def _describe_counts(counts: Mapping[str, int]) -> str:
    """Return numbers of operators in words, such as `12 Attention, 25 LayerNormalization`, or
    `none`."""
    return ", ".join(f"{count} {op}" for op, count in sorted(counts.items())) or "none"
