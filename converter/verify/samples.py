"""Draw the inputs on which a file is verified."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from converter.errors import CheckError
from converter.ir import Graph, Value, dims, named_sizes
from converter.ir.dtypes import is_float
from converter.ir.evaluation import peak_memory
from converter.verify.allowed_integers import allowed_integers

Draw: TypeAlias = Callable[[tuple[int, ...], np.dtype, np.random.Generator], np.ndarray]

FIRST_SIZE = 3
"""Size of the first named dimension. Each further one is larger by one, so that no two are
equal."""

EXTREME_SIZES = (1, 9)
"""Sizes of named dimensions in further samples: all of the smallest size, or all large."""


def _normal(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Draw floats with a standard deviation of 1, or integers with one of 4.

    Integers are truncated. Booleans are true for positive numbers.
    """
    return _cast_numbers(rng.standard_normal(shape) * (1 if is_float(dtype) else 4), dtype)


def _small_floats(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Draw floats with a standard deviation of 0.1; other dtypes are drawn as by ``_normal``."""
    normal = _normal(shape, dtype, rng)
    return _cast_numbers(normal.astype(np.float64) / 10, dtype) if is_float(dtype) else normal


def _large(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Draw floats with a standard deviation of 300 (16 in float16), or any integers of the dtype.

    Booleans are all true.
    """
    if is_float(dtype):
        # Products of numbers of this size do not overflow in float16.
        return _cast_numbers(
            rng.standard_normal(shape) * (16 if dtype == np.float16 else 300), dtype
        )
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def _repeated(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Draw from five values, including 0.0 and -0.0, so that ties occur."""
    values = np.array([-1.5, -0.0, 0.0, 0.5, 2.0])
    return _cast_numbers(rng.choice(values, shape), dtype)


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": _normal,
    "repeated": _repeated,
    "zeros": lambda shape, dtype, rng: np.zeros(shape, dtype),
    "large": _large,
}
"""Distributions of the basic samples: every function gets a sample of each."""

EXTRA_DISTRIBUTIONS: dict[str, Draw] = {"normal": _normal, "faint": _small_floats}
"""Distributions of the extra samples of a small function. Numbers that often show a known
deviation, such as large ones, are tried only once."""

MEMORY_BUDGET = 4 << 30
"""Bytes that the evaluation of a sample may take, by the shapes of all values. Named dimensions get
smaller sizes until the evaluation fits."""


class Sampler:
    """Generator of random inputs for a graph.

    Arguments:
        graph: the graph whose inputs are drawn. It determines which inputs are indices or loop
            counts.
        evaluated: the graph that is evaluated on the inputs, if it is another one. Named dimensions
            get sizes for which its evaluation takes at most ``MEMORY_BUDGET`` bytes.
    """

    def __init__(self, graph: Graph, evaluated: Graph | None = None) -> None:
        self.values = graph.inputs
        self.allowed_integers = allowed_integers(graph)
        self._evaluated = evaluated or graph
        self._sizes: dict[str, dict[str, int]] = {}

    @property
    def names(self) -> Sequence[str]:
        """The names of the inputs' named dimensions, sorted."""
        return named_sizes.all_names(self.values)

    def sizes(self, size_kind: str = "") -> dict[str, int]:
        """Return a size for each named dimension, close to the sizes that ``size_kind`` requests.

        Arguments:
            size_kind: the requested sizes. ``""`` requests ``FIRST_SIZE`` and the numbers after it,
                so that all sizes differ. ``", small"`` requests the first number in
                ``EXTREME_SIZES`` for all dimensions, ``", wide"`` the second one and the numbers
                after it. Samples have this text at the end of their names.

        Raises:
            CheckError: no sizes close to these satisfy the constraints and the memory budget.
        """
        if size_kind not in self._sizes:
            smallest, largest = EXTREME_SIZES
            requested_sizes = {
                "": {name: FIRST_SIZE + i for i, name in enumerate(self.names)},
                ", small": dict.fromkeys(self.names, smallest),
                ", wide": {name: largest + i for i, name in enumerate(self.names)},
            }
            self._sizes[size_kind] = _allowed_sizes(self._evaluated, requested_sizes[size_kind])
        return self._sizes[size_kind]

    def draw(self, distribution: str, seed: int, size_kind: str = "") -> list[np.ndarray]:
        """Return one array for each input, with integers that the input may have.

        Arguments:
            distribution: a name in ``DISTRIBUTIONS`` or ``EXTRA_DISTRIBUTIONS``.
            seed: seed of the random numbers.
            size_kind: the kind of the sizes of named dimensions (``sizes``).

        Raises:
            CheckError: no sizes satisfy the constraints and the memory budget.
        """
        sizes, draw = self.sizes(size_kind), (DISTRIBUTIONS | EXTRA_DISTRIBUTIONS)[distribution]
        drawn = draw_inputs(self.values, sizes, draw, seed)
        pairs = zip(drawn, self.allowed_integers, strict=True)
        return [limits.constrain(x, sizes) for x, limits in pairs]


def draw_basic_samples(
    graph: Graph, seed: int = 0, evaluated: Graph | None = None
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the name and the inputs of each basic sample for a graph (``basic_samples``).

    Arguments:
        graph: the graph whose inputs are drawn.
        seed: seed of the first sample. Each further sample has the next seed.
        evaluated: the graph that is evaluated on the inputs, if it is another one (``Sampler``).
    """
    yield from basic_samples(Sampler(graph, evaluated), seed)


def basic_samples(sampler: Sampler, seed: int) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the name and the inputs of one sample of each distribution in ``DISTRIBUTIONS``.

    If there are named dimensions, two samples of normal numbers follow: one with small sizes of all
    dimensions, and one with large sizes.

    Arguments:
        sampler: draws the inputs.
        seed: seed of the first sample. Each further sample has the next seed.

    Raises:
        CheckError: no sizes satisfy the constraints and the memory budget. It is raised before the
            first sample is yielded.
    """
    cases = [(distribution, "") for distribution in DISTRIBUTIONS]
    if sampler.names:
        cases += [("normal", ", small"), ("normal", ", wide")]
    for _, size_kind in cases:
        # This raises an error before any sample is drawn if the constraints allow no sizes.
        sampler.sizes(size_kind)
    for index, (distribution, size_kind) in enumerate(cases):
        yield distribution + size_kind, sampler.draw(distribution, seed + index, size_kind)


def _allowed_sizes(graph: Graph, requested: named_sizes.Sizes) -> dict[str, int]:
    """Return sizes of named dimensions, close to the requested ones, that are allowed.

    They satisfy the constraints of the graph, and an evaluation of it takes at most
    ``MEMORY_BUDGET`` bytes. For this, all requested sizes are reduced in steps, at last to 1. The
    memory is not checked if no sizes are requested.

    Raises:
        CheckError: there are no such sizes.
    """
    for share in (1, 0.75, 0.5, 0.25, 0):
        scaled_sizes = {name: max(1, round(share * size)) for name, size in requested.items()}
        allowed = named_sizes.find_allowed_sizes(scaled_sizes, graph.constraints)
        if allowed is None:
            constraint_text = ", ".join(map(repr, graph.constraints))
            raise CheckError(
                f"no sizes close to {scaled_sizes} satisfy the constraints {constraint_text}; "
                "pass inputs"
            )
        needed = peak_memory(graph, allowed)
        if not requested or needed <= MEMORY_BUDGET:
            return allowed
    raise CheckError(
        f"an evaluation takes {needed / 2**30:.1f} GiB even at the sizes {allowed}, and may take "
        f"{MEMORY_BUDGET / 2**30:.0f} GiB; pass inputs"
    )


def check_inputs_allowed(graph: Graph, inputs: Sequence[np.ndarray]) -> None:
    """Raise `CheckError` if the number of inputs is wrong or their sizes violate a constraint."""
    if len(inputs) != len(graph.inputs):
        raise CheckError(f"the model takes {len(graph.inputs)} inputs, received {len(inputs)}")
    sizes = named_sizes.read_sizes([v.shape for v in graph.inputs], [np.shape(x) for x in inputs])
    if text := named_sizes.find_broken_constraint(graph.constraints, sizes):
        raise CheckError(f"the inputs do not obey the constraint {text!r}: {sizes}")


def draw_inputs(
    values: Sequence[Value], sizes: named_sizes.Sizes, draw: Draw = _normal, seed: int = 0
) -> list[np.ndarray]:
    """Return one array for each value, of its shape and dtype.

    Arguments:
        values: the inputs or parameters of a graph.
        sizes: sizes of the named dimensions.
        draw: the distribution of the numbers.
        seed: seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    return [draw(dims.substitute_sizes(v.shape, sizes), v.dtype, rng) for v in values]


def _cast_numbers(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return numbers in a dtype.

    Unsigned integers are the magnitudes of the numbers. Booleans are true for positive numbers.
    """
    in_range: Any = np.abs(array) if dtype.kind == "u" else array
    return np.asarray(in_range > 0 if dtype == np.bool_ else in_range).astype(dtype)
