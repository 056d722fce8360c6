"""Clean-up of the ONNX model itself, with onnx_ir's own passes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import Sequential, common

from converter.targets import Target


def tidy(model: ir.Model, target: Target) -> ir.Model:
    """Merge equal nodes, drop unused nodes, sort, in place; quirks of the target avoided.

    Identities stay: the lowering writes one only where an output needs a name of its own.
    """
    target.settle(model)
    passes = Sequential(
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
        common.TopologicalSortPass(),
    )
    passes(model)
    return model
