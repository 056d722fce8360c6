"""Operations that become one operator, in every form: ranks, dtypes, parameters and opsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, product
from typing import Any

import jax
import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from converter.errors import UnsupportedError
from converter.ir import Graph, Node, Value, make_node, ops
from converter.ir.op import Op
from converter.lower import lower
from converter.targets import Target
from tests.forms.errors import IN_ONNX_RUNTIME

FLOATS = ("float32", "float16", "float64", "bfloat16")
DTYPES = (*FLOATS, "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
SIZES = (3, 2, 4, 5, 6, 3)
"""Sizes of the axes of the first operand."""


@dataclass(frozen=True)
class FormCase:
    """An operation with shapes and dtypes of its operands, parameters and an opset."""

    op: Op
    operands: tuple[tuple[tuple[int, ...], str], ...]
    opset: int
    params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        types = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in self.operands)
        return f"{self.op}({types}) {self.params} at {self.opset}"

    def node(self) -> Node:
        """Return the node of the operation. The shapes of its outputs come from its formula."""
        inputs = [Value(s, np.dtype(d), "input", f"x{i}") for i, (s, d) in enumerate(self.operands)]
        specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in inputs]
        assert self.op.formula is not None
        with jax.enable_x64(True):
            results = jax.eval_shape(partial(self.op.formula, **self.params), *specs)
        outputs = [(r.shape, self.operands[0][1]) for r in jax.tree.leaves(results)]
        return make_node(self.op, inputs, outputs, self.params)

    def runs(self, target: Target) -> str:
        """Run a file with only this node. Return the error, or an empty text if it runs."""
        node = self.node()
        names = [f"y{i}" for i, _ in enumerate(node.outputs)]
        graph = Graph(node.inputs, node.outputs, [node], output_names=names)
        try:
            model = ir.to_proto(lower(graph, self.opset, target)).SerializeToString()
        except UnsupportedError as error:
            return error.reason
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        feeds = {
            v.name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
                np.ones(v.shape, v.dtype), int(ir.DataType.from_numpy(v.dtype))
            )
            for v in node.inputs
        }
        try:
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            session.run_with_ort_values(None, feeds)
        except IN_ONNX_RUNTIME as error:
            return str(error)
        return ""


KINDS = (("nearest", False), ("linear", False), ("linear", True), ("cubic", True))


def resizes() -> Iterator[FormCase]:
    for rank, kind, opset in product(range(1, 6), KINDS, (17, 18, 20, 23)):
        if kind[1] and opset < 18:  # antialias
            continue
        shape = SIZES[:rank]
        for count in range(1, min(rank, 3) + 1):
            for axes in combinations(range(rank), count):
                for factor in (2, 0.5):
                    sizes = tuple(max(1, int(shape[axis] * factor)) for axis in axes)
                    params = {"axes": axes, "sizes": sizes, "kinds": (kind,)}
                    yield FormCase(ops.resize, ((shape, "float32"),), opset, params)
    params = {"axes": (2, 3), "sizes": (8, 5), "kinds": (KINDS[0],)}
    for dtype, kind, opset in product(DTYPES, KINDS, (18, 23)):
        if kind[0] == "nearest" or dtype in FLOATS:
            yield FormCase(ops.resize, ((SIZES[:4], dtype),), opset, params | {"kinds": (kind,)})


def pools() -> Iterator[FormCase]:
    windows = (
        {"padding": ((0, 0),), "dilation": (1,)},
        {"padding": ((1, 0),), "dilation": (1,)},
        {"padding": ((0, 1),), "dilation": (2,)},
    )
    for op, space, dtype, opset in product(
        (ops.max_pool, ops.avg_pool, ops.sum_pool), range(1, 5), FLOATS, (17, 18, 19, 23)
    ):
        for window in windows:
            params = {name: value * space for name, value in window.items()}
            params |= {"size": (2,) * space, "strides": (1,) * space}
            if op is ops.avg_pool:
                params["include_pad"] = True
            shape = (*SIZES[:2], *((5,) * space))
            yield FormCase(op, ((shape, dtype),), opset, params)


def convolutions() -> Iterator[FormCase]:
    for space, dtype, opset, groups, dilation in product(
        range(1, 5), FLOATS, (17, 18, 22), (1, 2), (1, 2)
    ):
        x, w = (2, 4, *((5,) * space)), (4, 4 // groups, *((2,) * space))
        params = {"strides": (1,) * space, "dilation": (dilation,) * space, "groups": groups}
        padding = {"padding": ((1, 0),) * space}
        yield FormCase(ops.conv, ((x, dtype), (w, dtype)), opset, params | padding)
        transposed = (4, 4 // groups, *((2,) * space))
        cuts = {"cuts": ((0, 0),) * space}
        yield FormCase(ops.conv_transpose, ((x, dtype), (transposed, dtype)), opset, params | cuts)


def samplings() -> Iterator[FormCase]:
    for dtype, opset, padding in product(FLOATS, (17, 18, 20, 22), ("zeros", "border")):
        operands = (((2, 3, 4, 5), dtype), ((2, 3, 3, 2), dtype))
        yield FormCase(ops.grid_sample, operands, opset, {"padding": padding})


def norms() -> Iterator[FormCase]:
    for rank, dtype, opset in product(range(1, 6), FLOATS, (17, 18, 21, 23)):
        shape = SIZES[:rank]
        for axis in range(rank):
            tail = (shape[axis:], dtype)
            params = {"axis": axis, "epsilon": 1e-5}
            yield FormCase(ops.layer_norm, ((shape, dtype), tail, tail), opset, params)
            if opset >= 23:
                yield FormCase(ops.rms_norm, ((shape, dtype), tail), opset, params)
        if rank > 1:
            c = ((shape[1],), dtype)
            eps = {"epsilon": 1e-5}
            yield FormCase(ops.batch_norm, ((shape, dtype), c, c, c, c), opset, eps)
            by_channel = {**eps, "groups": shape[1]}
            yield FormCase(ops.group_norm, ((shape, dtype), c, c), opset, by_channel)


def softmaxes() -> Iterator[FormCase]:
    for op, rank, dtype, opset in product(
        (ops.softmax, ops.log_softmax), range(1, 6), FLOATS, (17, 23)
    ):
        for axis in range(rank):
            yield FormCase(op, ((SIZES[:rank], dtype),), opset, {"axis": axis})


FORMS: Sequence[Callable[[], Iterator[FormCase]]] = (
    *(resizes, pools, convolutions, samplings, norms, softmaxes),
)
