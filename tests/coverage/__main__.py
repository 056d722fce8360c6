"""The page: a row for every primitive, and the reason of every refusal.

The functions that the tests try say which primitives each holds, of which dtypes.
"""

import importlib
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from typing import Any

import jax
import numpy as np

import converter
from converter.errors import Unsupported
from converter.frontend.refused import REFUSED
from tests.conformance import inputs
from tests.converter.harness.refused import REMAINING, TARGETS, reason, shares
from tests.converter.harness.table import DTYPES, arguments, sample, whole
from tests.converter.test_rules import EXAMPLES, equations
from tests.coverage.primitives import opsets, primitives, ways

HEAD = """# Coverage

What becomes of every primitive that JAX {jax} and Equinox define, from the converter's own tables
and from what the tests try: `python -m tests.coverage` writes this page. A primitive that is in
none of them fails `tests/test_coverage.py`.

- **How**: *a rule* writes operators; *a function in its place* is traced instead; *another form* is
  what the passes bring it into; *inlined* is what it wraps.
- **Opsets**: from which on, and where a newer operator says it better.
- **Dtypes** are those that a test finds right in ONNX Runtime; where JAX has no others, all.
- **Operators** are those of one test, from the opset on that is named, if there are several.
- **Tests**: how many cases of which table of `tests/converter`; `harness` is JAX's own, of which
  the full tier tries at most twelve a group, and `-m hunt` all.
"""

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = tuple(d for d in DTYPES if "int" in d)
MEASURED = (17, 18, 23, 26)
SEVERAL = 8
"""So many operators are named."""


def page() -> str:
    """All of it."""
    public, become = primitives(), ways()
    written = [name for name in public if become[name] != "refused"]
    parts = [HEAD.format(jax=jax.__version__)]
    for title, is_public in (("Public primitives", True), ("Primitives inside of JAX", False)):
        rows = [_row(name, become[name]) for name in written if public[name] == is_public]
        parts.append(f"## {title}\n\n{_table(rows)}")
    parts.append(f"## Refused\n\n{_refusals(public.keys() - written)}")
    parts.append(f"## JAX's own harness\n\n{_harness_shares()}")
    return "\n".join(parts)


def _table(rows: list[tuple[str, ...]]) -> str:
    head = ("primitive", "how", "opsets", "dtypes", "operators", "tests")
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(name: str, how: str) -> tuple[str, ...]:
    if name not in tried():
        return f"`{name}`", how, opsets(name), "", "", ""
    uses, dtypes = tried()[name]
    counts = sorted(Counter(use.table for use in uses).items())
    tests = ", ".join(f"{table} {count}" for table, count in counts)
    return f"`{name}`", how, opsets(name), _dtypes(dtypes), _operators(name), tests


def _dtypes(found: set[str]) -> str:
    """In the order of the table, those that are there together as one word."""
    words = []
    for word, names in (("floats", FLOATS), ("integers", INTEGERS)):
        if found >= set(names):
            words.append(word)
            found = found - set(names)
    return ", ".join([*words, *(d for d in DTYPES if d in found)])


def _operators(name: str) -> str:
    """Those of an opset that differ from those of the one before."""
    every = [(opset, _at(name, opset)) for opset in MEASURED]
    told = [next(same) for _, same in itertools.groupby(every, key=itemgetter(1))]
    told = [(opset, text) for opset, text in told if text or opset > MEASURED[0]]
    return "; ".join(f"{opset}: {text}" for opset, text in told) if len(told) > 1 else every[-1][1]


def _at(name: str, opset: int) -> str:
    """What the file of the first use holds that has numbers in it."""
    uses, _ = tried()[name]
    use = next((u for u in uses if all(x.size for x in u.draw())), uses[0])
    try:
        with warnings.catch_warnings(action="ignore"):
            found = sorted(converter.to_onnx(use.fn, [*use.draw()], opset=opset).report.histogram)
    except Unsupported:
        return ""
    rest = f" and {len(found) - SEVERAL} more" if len(found) > SEVERAL else ""
    return ", ".join(found[:SEVERAL]) + rest


def _refusals(names: Set[str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for name in sorted(names):
        by_reason.setdefault(REFUSED[name], []).append(f"`{name}`")
    rows = [f"| {why} | {', '.join(found)} |" for why, found in sorted(by_reason.items())]
    return "\n".join(["| reason | primitives |", "|---|---|", *rows]) + "\n"


def _harness_shares() -> str:
    """The shares that the tests hold, and what is left."""
    table = sample(whole(), SAMPLE)
    found = shares(table.values(), [name for name in table if reason(name) is None])
    lines = ["| dtypes | right | of | at least |", "|---|---|---|---|"]
    for row, (right, count) in found.items():
        least = f"{TARGETS[row]:.0%}" if row in TARGETS else ""
        lines.append(f"| {row} | {right} | {count} | {least} |")
    lines += ["", "| left | reason |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in REMAINING.items()]
    return "\n".join(lines) + "\n"


TABLES = {
    "decompositions/test_wrappers": ("INLINED", "BUFFERS", "DROPPED"),
    "decompositions/test_products": ("CASES",),
    "decompositions/test_matrices": ("ANSWERS",),
    "decompositions/test_special_functions": ("FUNCTIONS",),
    "decompositions/test_uncommon": ("UNCOMMON",),
}
"""Modules of `tests/converter` with functions of `X`, or functions with their inputs last."""

SAMPLE = 12
"""So many of a group of JAX's harness does the full tier try."""

GROUPS = {
    "reduce_window_add": "reduce_window_sum",
    **{f"scatter_{name}": f"scatter-{name}" for name in ("add", "max", "min", "mul")},
}
"""Groups of JAX's harness that are called otherwise than their primitive."""


@dataclass(frozen=True)
class Use:
    """A function that a test tries, and what draws its inputs."""

    table: str
    fn: Callable[..., Any]
    draw: Callable[[], Sequence[np.ndarray]]


@cache
def tried() -> dict[str, tuple[list[Use], set[str]]]:
    """By primitive its uses and dtypes; what JAX's harness has is counted where it is right."""
    every: dict[str, tuple[list[Use], set[str]]] = {}
    for name, use, dtypes in (*_examples(), *_functions(), *_harness()):
        uses, known = every.setdefault(name, ([], set()))
        uses.append(use)
        known |= dtypes
    return every


def _examples() -> Iterator[tuple[str, Use, set[str]]]:
    """Each shows the primitive that it is called by."""
    for name, (fn, specs) in EXAMPLES.items():
        if ("B", 4) not in specs:
            args = inputs(specs)
            yield name, Use("test_rules", fn, partial(list, args)), {args[0].dtype.name}


def _functions() -> Iterator[tuple[str, Use, set[str]]]:
    for place, tables in TABLES.items():
        module = importlib.import_module(f"tests.converter.{place.replace('/', '.')}")
        for table in tables:
            for row in vars(module)[table].values():
                fn, *_, args = row if isinstance(row, tuple) else (row, [module.X])
                # what JAX takes without x64
                args = [np.float32(x) if x.dtype == np.float64 else x for x in args]
                for name, dtypes in _held(fn, args).items():
                    yield name, Use(place, fn, partial(list, args)), dtypes


def _held(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> dict[str, set[str]]:
    """The primitives of a function, and the dtypes of what each reads."""
    held: dict[str, set[str]] = {}
    for eqn in equations(jax.make_jaxpr(fn)(*args).jaxpr):
        names = {v.aval.dtype.name for v in eqn.invars if v.aval.dtype.name in DTYPES}
        held.setdefault(eqn.primitive.name, set()).update(names)
    return held


def _harness() -> Iterator[tuple[str, Use, set[str]]]:
    """The full tier's sample of JAX's harness, named after primitives."""
    harnesses = whole()
    for name, harness in sample(harnesses, SAMPLE).items():
        if reason(name) is None:
            group = harness.group_name
            use = Use("harness", harness.dyn_fun, partial(arguments, harness))
            yield GROUPS.get(group, group), use, {np.dtype(harness.dtype).name}


if __name__ == "__main__":
    print(page(), end="")
