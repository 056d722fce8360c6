"""Results of a conversion: the model, its graph, the report and the metadata."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import onnx_ir as ir

from converter.errors import SpecError
from converter.frontend.interface import Interface
from converter.fuse.match import NearMiss
from converter.ir import Graph, ops
from converter.model import saving
from converter.model.streaming import WrittenCallback
from converter.model.verdict import Verdict


@dataclass(frozen=True)
class Report:
    """Report about a converted model: fused operators, and structures that were not fused or may
    differ.

    Arguments:
        fused: number of fused operators by name, including those of other domains than ONNX's. The
            number is zero for operators that do not occur.
        histogram: number of nodes by operator, including nodes in bodies.
        near_misses: structures that were nearly fused, with the reason why they were not.
        deviations: sentences about nodes whose results may differ from JAX, and for which inputs
            they do.
        untaken: sentences about branches and bounds that no sample reached when the file was
            verified, and about samples that were left out because a loop does not end on them.
        absolute_functions: JAX's operations whose results have an absolute error in the file, as a
            deviation says. Each name has the magnitude of a result whose rounding error is as
            large.
        fails_verification: whether the result of a deviation is different even for some ordinary
            numbers. Such a file is verified with few samples.
        newer: number of operators that would be fused at newer opsets, by the first opset that has
            the operator, and by name.
        norm_transposes: number of transposes that move channels to the last axis before a norm. The
            norms of ONNX are computed over the last axes. A decomposed norm over other axes would
            be slower.
    """

    fused: Counter[str]
    histogram: dict[str, int]
    near_misses: list[NearMiss] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    untaken: list[str] = field(default_factory=list)
    absolute_functions: Mapping[str, float] = field(default_factory=dict)
    fails_verification: bool = False
    newer: dict[int, Counter[str]] = field(default_factory=dict)
    norm_transposes: int = 0

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(self.histogram.values())

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        lines = [f"{nodes}: {_format_counts(self.fused)}" if self.fused else nodes]
        lines += [f"not fused: {miss}" for miss in self.near_misses]
        lines += [f"may differ: {sentence}" for sentence in self.deviations]
        lines += [f"not verified: {sentence}" for sentence in self.untaken]
        if self.norm_transposes:
            lines.append(f"in front of norms of the last axes: {self.norm_transposes} Transpose")
        newer = self.newer.items()
        lines += [
            f"would be fused at opset {opset}: {_format_counts(counts)}" for opset, counts in newer
        ]
        return "\n".join(lines)


def _format_counts(counts: Mapping[str, int]) -> str:
    """Return counts as a text: ``2 Gelu, 1 Attention``."""
    return ", ".join(f"{n} {op}" for op, n in counts.items())


@dataclass(frozen=True)
class Export:
    """Converted model with its graph and the report.

    Arguments:
        model: the ONNX model.
        graph: the graph that it was lowered from.
        report: the report.
        retrace: returns the graph as it was traced, before any pass; optionally with the calls of
            functions with some names kept. The rounding error of results is estimated on it.
        interface: the relation between the inputs and outputs of the file and of the function.
        verdict: the result of the verification, or None if the model was not verified.
    """

    model: ir.Model
    graph: Graph
    report: Report
    retrace: Callable[..., Graph]
    interface: Interface = field(default_factory=Interface)
    verdict: Verdict | None = None

    def __repr__(self) -> str:
        summary = str(self.report).partition("\n")[0]
        return f"<Export at opset {self.model.opset_imports['']}: {summary}>"

    def save(
        self,
        path: str | os.PathLike[str],
        values: Mapping[str, Any] | None = None,
        progress: saving.Progress | None = None,
        external_data: bool | None = None,
        on_write: WrittenCallback | None = None,
    ) -> None:
        """Write the model to a file, completely or not at all.

        The initializers of the model are bound to the values, in place.

        Arguments:
            path: the path of the model. An existing file is replaced.
            values: values of abstract parameters by name, which are read one at a time. Other
                parameters may also get values.
            progress: called as ``progress(name, size)`` for each parameter before it is written,
                with the size in bytes.
            external_data: True to write the weights to ``<name>_data``; by default this happens
                above 2 GB only.
            on_write: called as ``on_write(name, piece)`` from a separate thread, with the name of a
                file and its next bytes.

        Raises:
            SpecError: a parameter has no value or a value of another dtype or shape, or
                ``external_data`` is False and the weights are too large for one file.
            SaveError: the file cannot be written, or a fusion does not hold for the given values.
        """
        saving.bind(self.model, self.graph, values, progress)
        saving.save(self.model, path, external_data, on_write)


def report(model: ir.Model) -> Report:
    """Return the report of a model: the numbers of its operators and of transposes before norms.

    Near misses, deviations and the results of a verification are left empty.
    """
    nodes = list(model.graph.all_nodes())
    counts = Counter(node.op_type for node in nodes)
    fusions = [
        name for op in ops.defined_ops() for name in (op.operator, op.alternative_operator) if name
    ]
    foreign = sorted({node.op_type for node in nodes if node.domain})
    return Report(
        fused=Counter({op: counts[op] for op in (*fusions, *foreign) if counts[op]}),
        histogram=dict(sorted(counts.items())),
        norm_transposes=sum(_is_norm_of_transpose(node) for node in nodes),
    )


def _is_norm_of_transpose(node: ir.Node) -> bool:
    """Return True if a node is a layer norm or RMS norm whose operand is transposed."""
    if node.op_type not in ("LayerNormalization", "RMSNormalization"):
        return False
    operand = node.inputs[0]
    producer = None if operand is None else operand.producer()
    return producer is not None and producer.op_type == "Transpose"


@dataclass(frozen=True)
class Metadata:
    """Metadata of a model: the fields of ONNX's ``ModelProto`` of these names, and the graph's
    name.

    ``properties`` become ``metadata_props``, which ONNX Runtime shows as
    ``session.get_modelmeta().custom_metadata_map``.

    Raises:
        SpecError: a property is not a string.
    """

    graph_name: str = "main_graph"
    producer_name: str = "jax-onnx-zoo"
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.properties.items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise SpecError(
                    f"metadata maps strings to strings, received {name!r}: {value!r}; "
                    f"write {str(name)!r}: {str(value)!r}"
                )

    def write(self, model: ir.Model) -> None:
        """Write the metadata into a model, in place.

        Empty fields remove those of the model. Properties are added to those that the model has.
        """
        model.graph.name = self.graph_name
        model.producer_name = self.producer_name
        model.producer_version = self.producer_version or None
        model.domain = self.domain or None
        model.model_version = self.model_version or None
        model.doc_string = self.doc_string or None
        model.metadata_props.update(sorted(self.properties.items()))


MetadataArgument: TypeAlias = Metadata | Mapping[str, str] | None


def to_metadata(metadata: MetadataArgument) -> Metadata:
    """Return metadata for an argument that may be metadata, a mapping of properties, or None.

    A mapping is converted to metadata with these properties, and None to metadata without
    properties.
    """
    return metadata if isinstance(metadata, Metadata) else Metadata(properties=metadata or {})
