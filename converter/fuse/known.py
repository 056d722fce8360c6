"""What a value rests on: constants alone, parameters, named sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from converter.graph import Node, Value
from converter.graph.origins import ancestors
from converter.programs.compute import compute, is_computable


def known(value: Value) -> np.ndarray | None:
    """The array behind a value that is made from constants alone."""
    if not rests_on(value, is_const, is_computable):
        return None
    return np.asarray(compute(value, lambda leaf: leaf.const))


def is_const(leaf: Value) -> bool:
    return leaf.kind == "const"


def is_sized(value: Value) -> bool:
    """Made from constants and named sizes alone."""
    return rests_on(value, is_const, lambda node: not node.bodies)


def is_weight(value: Value) -> bool:
    """Made from parameters and constants alone, all shapes known."""
    return rests_on(value, lambda leaf: leaf.kind in ("const", "param"), is_computable)


def rests_on(value: Value, leaf: Callable[[Value], bool], inner: Callable[[Node], bool]) -> bool:
    """True where everything that a value is computed from passes the tests."""
    return all(leaf(v) if v.node is None else inner(v.node) for v in ancestors(value))
