"""What the builders of one model have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.errors import Unsupported
from converter.ir import dims
from converter.ir.dims import Shape
from converter.ir.named_sizes import Origin
from converter.targets import Target


@dataclass
class Shared:
    """What one model's builders have in common."""

    opset: int
    target: Target
    main: ir.tape.Tape
    values: dict[int, ir.Value] = field(default_factory=dict)  # id(graph value) -> ONNX value
    constants: dict[Any, ir.Value] = field(default_factory=dict)
    sizes: dict[str, ir.Value] = field(default_factory=dict)  # text -> [1] or [rank] of int64
    origins: dict[str, tuple[ir.Value, Origin]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    refused: list[Unsupported] | None = None  # where these are collected, none is raised
    lines: bool = False  # whether nodes say where they come from
    domains: dict[str, int] = field(default_factory=dict)  # of operators that are not ONNX's own
    claimed: frozenset[str] = frozenset()  # names of users' own primitives
    taken: frozenset[str] = frozenset()  # names of inputs, parameters and outputs, cut at any "_"

    def fresh(self, stem: str) -> str:
        """``stem_0``, ``stem_1`` …, the same on every run; what begins like that is free too."""
        while (label := f"{stem}_{self.counts[stem]}") in self.taken:
            self.counts[stem] += 1
        self.counts[stem] += 1
        return label


def typed(value: ir.Value, shape: Shape, dtype: Any) -> ir.Value:
    """Stamp an ONNX value with shape and dtype."""
    value.dtype = ir.DataType.from_numpy(np.dtype(dtype))
    value.shape = ir.Shape([d if dims.is_static(d) else str(d) for d in shape])
    return value
