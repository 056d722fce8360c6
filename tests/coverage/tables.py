"""The functions that the tests try: which primitives each holds, of which dtypes."""

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
"""So many of a group of JAX's harness does the full tier try."""

GROUPS = {
    "reduce_window_add": "reduce_window_sum",
    **{f"scatter_{name}": f"scatter-{name}" for name in ("add", "max", "min", "mul")},
}
"""Groups of JAX's harness that are called otherwise than their primitive."""


@dataclass(frozen=True)
class Use:
    """A function that a test tries, what draws its inputs, their dtypes, and how long it is."""

    fn: Callable[..., Any]
    draw: Callable[[], Sequence[np.ndarray]]
    dtypes: set[str]
    steps: float = 0

    def operators(self, opset: int) -> list[str]:
        """What the file holds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export = converter.to_onnx(self.fn, list(self.draw()), opset=opset)
        return sorted(export.report.histogram)


@cache
def tried() -> dict[str, list[Use]]:
    """The uses of each primitive; what JAX's harness has is counted where it is right."""
    every = defaultdict[str, list[Use]](list)
    for name, use in (*_examples(), *_functions(), *_harness()):
        every[name].append(use)
    return every


def _examples() -> Iterator[tuple[str, Use]]:
    """Each shows the primitive that it is called by."""
    for name, (fn, specs) in EXAMPLES.items():
        if ("B", 4) not in specs:
            args = inputs(specs)
            yield name, Use(fn, partial(list, args), {args[0].dtype.name})


def _functions() -> Iterator[tuple[str, Use]]:
    for subject, cases in SUBJECTS.items():
        for case in cases if subject != "public" else ():
            if case.params is None and not case.x64:
                args = inputs(case.specs)
                eqns = list(equations(jax.make_jaxpr(case.fn)(*args).jaxpr))
                for name, dtypes in _held(eqns).items():
                    yield name, Use(case.fn, partial(list, args), dtypes, len(eqns))


def _held(eqns: Sequence[Any]) -> dict[str, set[str]]:
    """The primitives of a function, and the dtypes of what each reads."""
    held: dict[str, set[str]] = {}
    for eqn in eqns:
        names = {v.aval.dtype.name for v in eqn.invars if v.aval.dtype.name in DTYPES}
        held.setdefault(eqn.primitive.name, set()).update(names)
    return held


def _harness() -> Iterator[tuple[str, Use]]:
    """The full tier's sample of JAX's harness, named after primitives."""
    for name, harness in sample(whole(), SAMPLE).items():
        if reason(name) is None:
            group, dtypes = harness.group_name, {np.dtype(harness.dtype).name}
            use = Use(harness.dyn_fun, partial(arguments, harness), dtypes, 1)
            yield GROUPS.get(group, group), use
