"""Clean-up of the ONNX model itself, with onnx_ir's own passes."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import Sequential, common

from converter.products import settle_products
from converter.targets import ONNXRUNTIME, Target


def tidy(model: ir.Model, target: Target = ONNXRUNTIME) -> ir.Model:
    """Merge equal nodes, drop unused nodes, sort, in place; products as the target wants them.

    Identities stay: the lowering writes one only where an output needs a name of its own.
    """
    if target.rewrites:
        settle_products(model)
    passes = Sequential(
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
        common.TopologicalSortPass(),
    )
    passes(model)
    return model
