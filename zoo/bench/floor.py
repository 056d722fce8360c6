"""How long the products of a network take by themselves: the floor under its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from zoo.bench.rounds import Task, resting_session, run_once
from zoo.bench.timed_products import Products, TimedProduct

OPSET = 18
IR_VERSION = 8

Key: TypeAlias = int | str | TimedProduct
"""What is timed: a file, by its number; a product; or an empty call."""

CALL = "call"
"""The task of an empty call, whose time every product's contains as well."""


@dataclass(frozen=True)
class Floor:
    """Seconds of the fastest run of each product, less an empty call's, and of all together."""

    products: Products
    seconds: Mapping[TimedProduct, float]

    @property
    def total(self) -> float:
        """Of as many of each as the network has."""
        return sum(count * self.seconds[each] for each, count in self.products.counts.items())


def tasks(found: Products, threads: int) -> dict[Key, Task]:
    """One run of each product, and an empty call."""
    empty = ir.node("Identity", [ir.val("left", ir.DataType.FLOAT, [1])])
    timed: dict[Key, Task] = {CALL: _task(empty, {}, (1,), threads)}
    return timed | {product: _single(product, threads) for product in found.counts}


def floor(found: Products, times: Mapping[Key, Sequence[float]]) -> Floor:
    """From the times of `tasks`."""
    call = min(times[CALL])
    return Floor(found, {each: max(min(times[each]) - call, 0.0) for each in found.counts})


def _single(product: TimedProduct, threads: int) -> Task:
    """A run of a model with this one node. A weight is a constant, as ONNX Runtime packs those."""
    left = ir.val("left", ir.DataType.FLOAT, product.left)
    right = ir.val("right", ir.DataType.FLOAT, product.right)
    array = np.random.default_rng(0).standard_normal(product.right, np.float32)
    node = ir.node(product.op, [left, right], dict(product.attributes))
    fed = {} if product.constant else {"right": array}
    if product.constant:
        right.const_value = ir.tensor(array, name="right")
    return _task(node, fed, product.left, threads)


def _task(node: ir.Node, fed: Mapping[str, np.ndarray], left: Sequence[int], threads: int) -> Task:
    (output,) = node.outputs
    output.name, output.dtype = "output", ir.DataType.FLOAT
    operands = [value for value in node.inputs if value is not None]
    graph = ir.Graph(
        inputs=[value for value in operands if value.const_value is None],
        outputs=[output],
        nodes=[node],
        initializers=[value for value in operands if value.const_value is not None],
        opset_imports={"": OPSET},
        name="product",
    )
    data = ir.to_proto(ir.Model(graph, ir_version=IR_VERSION)).SerializeToString()
    array = np.random.default_rng(1).standard_normal(tuple(left), np.float32)
    return run_once(resting_session(data, threads), {"left": array, **fed})
