"""What a conversion gives: the model, its graph and the report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from converter.files import save as saving
from converter.fuse.match import NearMiss
from converter.graph import Graph
from converter.jaxprs.specs import Fill, by_place

FUSED = (
    "Attention",
    "RotaryEmbedding",
    "LayerNormalization",
    "RMSNormalization",
    "InstanceNormalization",
    "BatchNormalization",
    "Gelu",
    "LogSoftmax",
    "Resize",
)


@dataclass(frozen=True)
class Report:
    """What the file holds: fused operators, nodes by operator, and what was left decomposed.

    ``fused`` counts what there is; operators that are not there count zero. ``deviations`` says
    where the file may give other numbers than JAX, for what inputs, and by which nodes.
    """

    fused: Counter[str]
    histogram: dict[str, int]
    near_misses: list[NearMiss]
    deviations: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return sum(self.histogram.values())

    def __str__(self) -> str:
        lines = [f"{self.nodes} nodes: " + ", ".join(f"{n} {op}" for op, n in self.fused.items())]
        lines += [f"not fused: {miss.pattern}: {miss.reason}" for miss in self.near_misses]
        lines += [f"may differ: {sentence}" for sentence in self.deviations]
        return "\n".join(lines)


@dataclass(frozen=True)
class Export:
    """A converted model, the graph it was written from, and the report.

    ``retrace`` gives the graph as it was traced, before any pass: what rounding can do to a result
    is asked of it. ``fill`` makes of the inputs the function's arguments, by place and by name.
    """

    model: ir.Model
    graph: Graph
    report: Report
    retrace: Callable[[], Graph]
    fill: Fill = by_place

    def save(
        self,
        path: str | os.PathLike[str],
        values: Mapping[str, Any] | None = None,
        progress: saving.Progress | None = None,
    ) -> None:
        """Write the file; ``values`` binds abstract parameters by name, read one at a time.

        ``progress(name, bytes)`` is called as each tensor is written.
        """
        saving.bind(self.model, self.graph, values, progress)
        saving.save(self.model, path)


def report(
    model: ir.Model, near_misses: Sequence[NearMiss] = (), deviations: Sequence[str] = ()
) -> Report:
    """What a model consists of."""
    counts = Counter(node.op_type for node in model.graph.all_nodes())
    return Report(
        fused=Counter({op: counts[op] for op in FUSED if counts[op]}),
        histogram=dict(sorted(counts.items())),
        near_misses=list(near_misses),
        deviations=list(deviations),
    )
