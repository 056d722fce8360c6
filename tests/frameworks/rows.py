"""A layer of somebody's framework as a row of a table, and the one assertion that all rows pass."""

import math
import re
from collections.abc import Callable, Sequence
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

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
SIZES = {"B": 3, "T": 5}
"""What named dimensions are when a row runs."""

SEQUENCE = (("B", 5, 4),)
IMAGE = (("B", 9, 7, 4),)
SPACES = {1: (("B", 9, 4),), 2: IMAGE, 3: (("B", 5, 7, 6, 4),)}
CARRY = (("B", 6), ("B", 6))
TOKENS = ((("B", 5), np.int32),)

Bound: TypeAlias = tuple[Callable[..., Any], Any]
"""A function of parameters and inputs, and its parameters; None for a function of inputs alone."""


@dataclass(frozen=True)
class Row:
    """One way to use a layer; the name begins with its class, as in ``Conv, causal``.

    ``bind`` is given the types of the inputs, since some frameworks make a layer's parameters from
    them.
    """

    name: str
    bind: Callable[..., Bound]
    specs: Sequence[Spec] = (("B", 4),)

    @property
    def layer(self) -> str:
        return self.name.partition(",")[0]

    def convert(self) -> tuple[Callable[..., Any], converter.Export]:
        """The compiled function of the inputs, and its file.

        Parameters are handed over each time: an NNX module cannot be closed over.
        """
        fn, params = self.bind(*sized(self.specs))
        export = converter.to_onnx(fn, self.specs, params=params)
        compiled = eqx.filter_jit(fn)
        return compiled if params is None else partial(compiled, params), export


def sized(specs: Sequence[Spec]) -> tuple[Any, ...]:
    """The specs with a number for every name."""
    given = parse_arguments(specs)
    sizes = [tuple(SIZES.get(str(d), d) for d in s.shape) for s in given.structs]
    structs = [jax.ShapeDtypeStruct(n, s.dtype) for n, s in zip(sizes, given.structs, strict=True)]
    return given.fill(structs)[0]


def spaces(namespace: Any, of: Any, kind: str, *args: Any, shapes: Any = SPACES, **options: Any):
    """One row for each number of dimensions, which stands at ``{}`` in the name."""
    names = {kind.format(n): shape for n, shape in shapes.items()}
    layers = {name: vars(namespace)[name] for name in names if name in vars(namespace)}
    return [Row(name, of(layers[name], *args, **options), names[name]) for name in layers]


def draw(tree: Any) -> Any:
    """Seeded numbers for abstract parameters: matrices of both signs, vectors around one.

    So a bias is never zero, and a variance never negative.
    """
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
    """The file gives JAX's numbers with and without ONNX Runtime's optimiser."""
    fn, export = row.convert()
    inputs = draw_inputs(export.graph.inputs, SIZES, _draw)
    verdict = converter.check(export.model, export.interface.wrap(fn), inputs)
    assert verdict.passed, verdict.differences[0]
    return export


def _draw(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Integers are small, since most are indices."""
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype == np.bool_ else 4, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def sections() -> dict[str, str]:
    """The page by the titles of its sections."""
    return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))


def example(title: str) -> str:
    """The code of a section, which is written there by hand."""
    (code,) = re.findall(r"```python(.*?)```", sections()[title], re.S)
    return str(code)


def line(row: Row, export: converter.Export) -> str:
    """How the page shows a row."""
    operators = ", ".join(f"{n} {op}" for op, n in export.report.histogram.items())
    return f"| {row.name} | {operators} |"


def subclasses(namespace: Any, base: type) -> set[str]:
    """The public classes of a framework's namespace, those of several names once."""
    return {
        found.__name__
        for name, found in vars(namespace).items()
        if isinstance(found, type) and issubclass(found, base) and not name.startswith("_")
    }
