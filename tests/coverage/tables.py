"""The functions of the tests, with their primitives and dtypes."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import numpy as np

import converter
from tests.conformance import inputs
from tests.converter.harness.refused import reason
from tests.converter.harness.table import DTYPES, arguments, sample, whole
from tests.converter.test_rules import EXAMPLES, equations
from tests.programs.table import SUBJECTS

SAMPLE = 12
"""The number of cases that the full tier tries of a group of JAX's harness."""

GROUPS = {
    "reduce_window_add": "reduce_window_sum",
    **{f"scatter_{name}": f"scatter-{name}" for name in ("add", "max", "min", "mul")},
}
"""Groups of JAX's harness whose name differs from that of the primitive."""


@dataclass(frozen=True)
class Use:
    """A function of a test. `draw` draws its inputs, and `steps` is its number of equations."""

    fn: Callable[..., Any]
    draw: Callable[[], Sequence[np.ndarray]]
    dtypes: set[str]
    steps: float = 0

    def operators(self, opset: int) -> list[str]:
        """Return the operators of the file at an opset."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export = converter.to_onnx(self.fn, list(self.draw()), opset=opset)
        return sorted(export.report.histogram)


@cache
def uses_by_primitive() -> dict[str, list[Use]]:
    """Return the uses of each primitive. Cases of JAX's harness count if they are supported."""
    uses = defaultdict[str, list[Use]](list)
    for name, use in (*_examples(), *_functions(), *_harness()):
        uses[name].append(use)
    return uses


def _examples() -> Iterator[tuple[str, Use]]:
    """Yield the examples of single primitives, by the name of the primitive."""
    for name, (fn, specs) in EXAMPLES.items():
        if ("B", 4) not in specs:
            args = inputs(specs)
            yield name, Use(fn, partial(list, args), {args[0].dtype.name})


def _functions() -> Iterator[tuple[str, Use]]:
    """Yield the programs of the tests, once for each primitive in them."""
    for subject, cases in SUBJECTS.items():
        for case in cases if subject != "public" else ():
            if case.params is None and not case.x64:
                args = inputs(case.specs)
                eqns = list(equations(jax.make_jaxpr(case.fn)(*args).jaxpr))
                for name, dtypes in _dtypes_by_primitive(eqns).items():
                    yield name, Use(case.fn, partial(list, args), dtypes, len(eqns))


def _dtypes_by_primitive(eqns: Sequence[Any]) -> dict[str, set[str]]:
    """Return the dtypes of operands by primitive."""
    by_primitive: dict[str, set[str]] = {}
    for eqn in eqns:
        names = {v.aval.dtype.name for v in eqn.invars if v.aval.dtype.name in DTYPES}
        by_primitive.setdefault(eqn.primitive.name, set()).update(names)
    return by_primitive


def _harness() -> Iterator[tuple[str, Use]]:
    """Yield the cases of JAX's harness in the full tier, by the name of the primitive."""
    for name, harness in sample(whole(), SAMPLE).items():
        if reason(name) is None:
            group, dtypes = harness.group_name, {np.dtype(harness.dtype).name}
            use = Use(harness.dyn_fun, partial(arguments, harness), dtypes, 1)
            yield GROUPS.get(group, group), use
