"""What a file is tried on: ordinary numbers, and those that show what ordinary ones hide."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from converter.errors import CheckError
from converter.ir import Graph, Value, dims, named_sizes
from converter.ir.dtypes import is_float
from converter.ir.evaluation import memory
from converter.verify.whole_numbers import whole_numbers

Draw: TypeAlias = Callable[[tuple[int, ...], np.dtype, np.random.Generator], np.ndarray]

ORDINARY = 3
"""What the first named dimension is; the next is one larger, so that no two are the same."""

EXTREME_SIZES = (1, 9)
"""What named dimensions are in further samples: all of them the smallest, or large."""


def _normal(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    return _cast(rng.standard_normal(shape) * (1 if is_float(dtype) else 4), dtype)


def _large(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    if is_float(dtype):  # of which float16 holds products
        return _cast(rng.standard_normal(shape) * (16 if dtype == np.float16 else 300), dtype)
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def _repeated(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Few different values, so that there are equals to choose among; both zeros among them."""
    values = np.array([-1.5, -0.0, 0.0, 0.5, 2.0])
    return _cast(rng.choice(values, shape), dtype)


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": _normal,
    "repeated": _repeated,
    "zeros": lambda shape, dtype, rng: np.zeros(shape, dtype),
    "large": _large,
}

BUDGET = 4 << 30
"""Bytes that the evaluation of a sample may take, by the shapes of all values: sizes of named
dimensions are drawn smaller until it does."""


def samples(
    graph: Graph, seed: int = 0, evaluated: Graph | None = None
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The name and the inputs of each sample for a graph's inputs.

    ``evaluated`` is what is computed on them, if it is another graph. It takes no more memory than
    ``BUDGET``.

    **Raises** `CheckError` where no sizes obey the constraints and that.
    """
    names = named_sizes.all_names(graph.inputs)
    smallest, largest = EXTREME_SIZES
    sizes_by_name = {
        "": {name: ORDINARY + i for i, name in enumerate(names)},
        ", small": dict.fromkeys(names, smallest),
        ", wide": {name: largest + i for i, name in enumerate(names)},
    }
    cases = [(what, "") for what in DISTRIBUTIONS]
    if names:
        cases += [("normal", size) for size in sizes_by_name if size]
    whole = whole_numbers(graph)
    allowed = {size: _allowed(evaluated or graph, sizes_by_name[size]) for size in sizes_by_name}
    for index, (what, size) in enumerate(cases):
        drawn = draw_inputs(graph.inputs, allowed[size], DISTRIBUTIONS[what], seed + index)
        pairs = zip(drawn, whole, strict=True)
        yield what + size, [each.brought(x, allowed[size]) for x, each in pairs]


def _allowed(graph: Graph, asked: named_sizes.Sizes) -> dict[str, int]:
    """Sizes that the graph's constraints and the memory allow, near to those that are wanted."""
    for share in (1, 0.75, 0.5, 0.25, 0):
        smaller = {name: max(1, round(share * size)) for name, size in asked.items()}
        nearest = named_sizes.nearest_size(smaller, graph.constraints)
        if nearest is None:
            constraint_text = ", ".join(map(repr, graph.constraints))
            raise CheckError(
                f"no sizes near {smaller} obey the constraints {constraint_text}; pass inputs"
            )
        needed = memory(graph, nearest)
        if not asked or needed <= BUDGET:
            return nearest
    raise CheckError(
        f"an evaluation takes {needed / 2**30:.1f} GiB even at the sizes {nearest}, and may take "
        f"{BUDGET / 2**30:.0f} GiB; pass inputs"
    )


def refuse_forbidden(graph: Graph, inputs: Sequence[np.ndarray]) -> None:
    """**Raises** `CheckError` where inputs are too many or few, or of sizes that are excluded."""
    if len(inputs) != len(graph.inputs):
        raise CheckError(f"the model takes {len(graph.inputs)} inputs, received {len(inputs)}")
    sizes = named_sizes.read([v.shape for v in graph.inputs], [np.shape(x) for x in inputs])
    if text := named_sizes.broken(graph.constraints, sizes):
        raise CheckError(f"the inputs do not obey the constraint {text!r}: {sizes}")


def draw_inputs(
    values: Sequence[Value], named: named_sizes.Sizes, draw: Draw = _normal, seed: int = 0
) -> list[np.ndarray]:
    """One array for each value, its named dimensions as ``named`` has them."""
    rng = np.random.default_rng(seed)
    return [draw(dims.concrete(v.shape, named), v.dtype, rng) for v in values]


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Unsigned integers of what is below zero are those of its magnitude."""
    in_range: Any = np.abs(array) if dtype.kind == "u" else array
    return np.asarray(in_range > 0 if dtype == np.bool_ else in_range).astype(dtype)
