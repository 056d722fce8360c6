"""The functions that the tests try: which primitives each holds, of which dtypes."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np

from tests.conformance import Case, inputs
from tests.converter.harness.refused import reason
from tests.converter.harness.table import arguments, sample, whole
from tests.converter.test_rules import EXAMPLES, equations

logger = logging.getLogger(__name__)

MODULES = (
    *("test_conformance_control", "test_conformance_elementwise", "test_conformance_indexing"),
    *("test_conformance_layers", "test_conformance_reduce", "test_conformance_window"),
    *("expand.test_computations", "expand.test_selection"),
)
"""Modules whose tests are cases."""

TABLES = {
    "expand.test_wrappers": ("INLINED", "BUFFERS", "DROPPED"),
    "expand.test_products": ("CASES",),
}
"""Modules with tables of functions, or of functions and their inputs."""


@dataclass(frozen=True)
class Use:
    """A function that a test tries, and its inputs."""

    table: str
    fn: Callable[..., Any]
    args: Sequence[np.ndarray]


@dataclass(frozen=True)
class Found:
    """A primitive in a use, the dtypes of its operands, and how many equations there are."""

    use: Use
    dtypes: frozenset[str]
    size: int


def uses() -> Iterator[Use]:
    """Of all tables; those of JAX's harness that are not right are left out."""
    for fn, specs in EXAMPLES.values():
        if not any("B" in spec for spec in specs if not hasattr(spec, "dtype")):
            yield Use("test_rules", fn, inputs(specs))
    for name in MODULES:
        for case in _cases(importlib.import_module(f"tests.converter.{name}")):
            yield Use(name, case.fn, inputs(case.specs))
    for name, tables in TABLES.items():
        module = importlib.import_module(f"tests.converter.{name}")
        for table in tables:
            for row in vars(module)[table].values():
                fn, args = row if isinstance(row, tuple) else (row, [module.X])
                yield Use(name, fn, args)
    for name, harness in sample(whole(), 12).items():
        if reason(name) is None:
            yield Use("harness", harness.dyn_fun, arguments(harness))


def _cases(module: Any) -> Iterator[Case]:
    """What the tests of a module are parametrised with."""
    for thing in vars(module).values():
        for mark in vars(thing).get("pytestmark", ()) if callable(thing) else ():
            for row in mark.args[1] if mark.name == "parametrize" else ():
                yield from (v for v in getattr(row, "values", ()) if isinstance(v, Case))


@cache
def found() -> dict[str, list[Found]]:
    """By primitive, where it is tried."""
    every: dict[str, list[Found]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for use in uses():
            held: dict[str, set[str]] = {}
            jaxpr = jax.make_jaxpr(use.fn)(*use.args).jaxpr
            size = 0
            for eqn in equations(jaxpr):
                size += 1
                variables = eqn.invars or eqn.outvars
                held.setdefault(eqn.primitive.name, set()).update(str(v.aval.dtype) for v in variables if hasattr(v.aval,"dtype"))
            for name, dtypes in held.items():
                every.setdefault(name, []).append(Found(use, frozenset(dtypes), size))
    return every
