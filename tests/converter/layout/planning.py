"""Networks in channels-last, planned with the shapes of an ordinary image.

A plan is a list of steps, each a function of parameters and of values that earlier steps gave. It
can be run on arrays of any size that its input's names allow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.converter.fuse.drawing import Pencil

SIZES = {"B": 2, "H": 5, "W": 7}
"""What names stand for while a plan is made; no two sizes that come of them are equal by chance."""


@dataclass
class Network:
    """``fn(params, *inputs)``; ``specs`` are those of the inputs."""

    pencil: Pencil
    specs: list[tuple[Any, ...]]
    params: dict[str, np.ndarray] = field(default_factory=dict)
    steps: list[tuple[Callable[..., Any], tuple[int, ...]]] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shapes += [tuple(_size(d) for d in spec) for spec in self.specs]

    @property
    def named(self) -> bool:
        """Whether height and width have names: JAX cannot say whether a window fits."""
        return isinstance(self.specs[0][1], str)

    def fn(self, params: Mapping[str, Any], *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for step, places in self.steps:
            values.append(step(params, *(values[i] for i in places)))
        return tuple(values[i] for i in self.outputs)

    def inputs(self) -> list[np.ndarray]:
        shapes = self.shapes[: len(self.specs)]
        return [self.pencil.rng.standard_normal(s).astype(np.float32) for s in shapes]

    def weight(self, *shape: int) -> str:
        """The name of another parameter."""
        name = f"p{len(self.params)}"
        scale = 1 / np.sqrt(max(1, np.prod(shape[:-1])))
        self.params[name] = self.pencil.rng.normal(0.2, scale, shape).astype(np.float32)
        return name

    def add(self, step: Callable[..., Any], *places: int) -> int:
        """Append a step; the place of its result."""
        result = jax.eval_shape(
            partial(step, self.params),
            *(jax.ShapeDtypeStruct(self.shapes[i], jnp.float32) for i in places),
        )
        self.steps.append((step, places))
        self.shapes.append(result.shape)
        return len(self.shapes) - 1

    def mapped(self, what: str, table: Mapping[str, Callable[..., Any]], *places: int) -> int:
        """Append one of a table's functions, which take no parameters."""
        fn = table[self.pencil.pick(what, [*table])]
        return self.add(lambda p, *xs: fn(*xs), *places)


def _size(dim: int | str) -> int:
    if isinstance(dim, int):
        return dim
    factor, _, name = dim.rpartition("*")
    return int(factor or 1) * SIZES[name]
