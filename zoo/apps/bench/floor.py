"""How long the products of a network take by themselves: the floor under its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from zoo.export.timing.rounds import Task, resting_session, run_once
from zoo.export.timing.timed_products import Products, TimedProduct

FLOOR_OPSET = 18
IR_VERSION = 8

Key: TypeAlias = int | TimedProduct
"""What is timed: a file, by its number, or a product."""

CALL = TimedProduct("MatMul", (1, 1), (1, 1), True)
"""The smallest product: an empty call, whose time that of every other contains as well."""


@dataclass(frozen=True)
class Floor:
    """Seconds of the fastest run of each product, less an empty call's, and of all together."""

    products: Products
    seconds: Mapping[TimedProduct, float]

    @property
    def total(self) -> float:
        """Seconds of as many of each as the network has."""
        return sum(count * self.seconds[each] for each, count in self.products.counts.items())


def tasks(products: Products, threads: int) -> dict[Key, Task]:
    """One run of each product, and an empty call."""
    return {product: _task(product, threads) for product in (CALL, *products.counts)}


def floor(products: Products, times: Mapping[Key, Sequence[float]]) -> Floor:
    """Floor from the times of `tasks`."""
    call = min(times[CALL])
    return Floor(products, {each: max(min(times[each]) - call, 0.0) for each in products.counts})


def _task(product: TimedProduct, threads: int) -> Task:
    """A run of a model with this one node. A weight is a constant, as ONNX Runtime packs those."""
    rng = np.random.default_rng(0)
    sides = {"left": product.left, "right": product.right}
    fed = {name: rng.standard_normal(shape, np.float32) for name, shape in sides.items()}
    left, right = (ir.val(name, ir.DataType.FLOAT, shape) for name, shape in sides.items())
    if product.constant:
        right.const_value = ir.tensor(fed.pop("right"), name="right")
    node = ir.node(product.op, [left, right], dict(product.attributes))
    (output,) = node.outputs
    output.name, output.dtype = "output", ir.DataType.FLOAT
    graph = ir.Graph(
        inputs=[left] if product.constant else [left, right],
        outputs=[output],
        nodes=[node],
        initializers=[right] if product.constant else [],
        opset_imports={"": FLOOR_OPSET},
        name="product",
    )
    data = ir.to_proto(ir.Model(graph, ir_version=IR_VERSION)).SerializeToString()
    return run_once(resting_session(data, threads), fed)
