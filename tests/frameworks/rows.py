"""A layer of a framework as a row of a table, and the assertion that every row passes: its file
gives JAX's numbers in ONNX Runtime."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import converter
from converter.frontend.specs import Spec, parse_arguments
from converter.verify.samples import draw_inputs
from tests.code_blocks import code_blocks

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
SIZES = {"B": 3, "T": 5}
"""Sizes of the named dimensions when a row runs."""

SEQUENCE = (("B", 5, 4),)
IMAGE = (("B", 9, 7, 4),)
SPACES = {1: (("B", 9, 4),), 2: IMAGE, 3: (("B", 5, 7, 6, 4),)}
CARRY = (("B", 6), ("B", 6))
TOKENS = ((("B", 5), np.int32),)

Bound: TypeAlias = tuple[Callable[..., Any], Any]
"""A function of parameters and inputs, with its parameters; None if it is a function of the inputs
only."""


@dataclass(frozen=True)
class Row:
    """One way to use a layer. The name begins with its class, as in ``Conv, causal``.

    ``bind`` takes the types of the inputs, because some frameworks make a layer's parameters from
    them.
    """

    name: str
    bind: Callable[..., Bound]
    specs: Sequence[Spec] = (("B", 4),)

    @property
    def layer(self) -> str:
        return self.name.partition(",")[0]

    def convert(self) -> tuple[Callable[..., Any], converter.Export]:
        """Return the compiled function of the inputs, and its file.

        The parameters are passed in each call, because an NNX module cannot be closed over.
        """
        fn, params = self.bind(*sized(self.specs))
        export = converter.to_onnx(fn, self.specs, params=params)
        compiled = eqx.filter_jit(fn)
        return compiled if params is None else partial(compiled, params), export


def sized(specs: Sequence[Spec]) -> tuple[Any, ...]:
    """Return the specs as abstract values, with a size for every named dimension."""
    arguments = parse_arguments(specs)
    sizes = [tuple(SIZES.get(str(d), d) for d in s.shape) for s in arguments.structs]
    structs = [
        jax.ShapeDtypeStruct(n, s.dtype) for n, s in zip(sizes, arguments.structs, strict=True)
    ]
    return arguments.fill(structs)[0]


def spaces(namespace: Any, of: Any, kind: str, *args: Any, shapes: Any = SPACES, **options: Any):
    """Return a row for each number of spatial dimensions, which replaces ``{}`` in the name."""
    names = {kind.format(n): shape for n, shape in shapes.items()}
    layers = {name: vars(namespace)[name] for name in names if name in vars(namespace)}
    return [Row(name, of(layers[name], *args, **options), names[name]) for name in layers]


def draw(tree: Any) -> Any:
    """Return seeded numbers in place of abstract parameters. Matrices have both signs, and vectors
    are around one, so that no bias is zero and no variance negative."""
    rng = np.random.default_rng(5)

    def leaf(spec: Any) -> Any:
        if not isinstance(spec, jax.ShapeDtypeStruct):
            return spec
        if jnp.issubdtype(spec.dtype, jax.dtypes.prng_key):
            return jax.random.key(0)
        if not jnp.issubdtype(spec.dtype, jnp.floating):
            return jnp.zeros(spec.shape, spec.dtype)
        summed = math.prod(spec.shape) / max(spec.shape, default=1)
        value = rng.normal(0, summed**-0.5, spec.shape)
        return jnp.asarray(value if summed > 1 else rng.uniform(0.5, 1.5, spec.shape), spec.dtype)

    return jax.tree.map(leaf, tree)


def assert_right(row: Row) -> converter.Export:
    """Assert that the file gives JAX's numbers with and without ONNX Runtime's optimiser. Return
    its export."""
    fn, export = row.convert()
    inputs = draw_inputs(export.graph.inputs, SIZES, _draw)
    verdict = converter.check(export.model, export.interface.wrap(fn), inputs)
    assert verdict.passed, verdict.differences[0]
    return export


def _draw(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Draw an input. Integers are small, because most are indices."""
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype == np.bool_ else 4, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def sections() -> dict[str, str]:
    """Return the sections of the page by their titles."""
    return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))


def example(title: str) -> str:
    """Return the example of a section, which is written by hand."""
    (code,) = code_blocks(sections()[title], "python")
    return code


def operators(export: converter.Export) -> str:
    """Return the operators of a file with the number of each, as the page states them."""
    return ", ".join(f"{n} {op}" for op, n in export.report.histogram.items())


def grouped(items: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the first elements of pairs by their second elements, in order of appearance."""
    groups: dict[str, list[str]] = {}
    for name, key in items:
        groups.setdefault(key, []).append(name)
    return groups


def table(layers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of a table of names of rows and their operators. Rows with the same
    operators share a line."""
    lines = [f"| {'; '.join(names)} | {ops} |" for ops, names in grouped(layers).items()]
    return ["| layers | operators |", "|---|---|", *lines]


def read_table(section: str) -> dict[str, str]:
    """Return the operators by the name of the row from a section of the page."""
    lines = re.findall(r"^\| (.*?) \| (\d.*) \|$", section, re.M)
    return {name: ops for names, ops in lines for name in names.split("; ")}


def reasons(excluded: Mapping[str, str]) -> list[str]:
    """Return the lines of the layers that are not in the table. Layers with the same reason share a
    line."""
    groups = grouped(excluded.items())
    return [f"- `{'`, `'.join(names)}`: {reason}" for reason, names in groups.items()]


def read_reasons(section: str) -> dict[str, str]:
    """Return the reasons by the name of the layer from a section of the page."""
    lines = re.findall(r"^- `(.*?)`: (.*)$", section, re.M)
    return {name: reason for names, reason in lines for name in names.split("`, `")}


def subclasses(namespace: Any, base: type) -> set[str]:
    """Return the public classes of a namespace that are subclasses of ``base``. A class with
    several names is returned once."""
    return {
        member.__name__
        for name, member in vars(namespace).items()
        if isinstance(member, type) and issubclass(member, base) and not name.startswith("_")
    }
