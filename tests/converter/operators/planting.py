"""Run programs with NaN and infinities in one operand, and record where files differ from JAX."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import converter
from converter.model.results import Export
from converter.model.verdict import Level
from converter.verify.sessions import run, session
from tests.arrays import Tolerance, count_units
from tests.converter.operators.programs import Program

PLANTED = {
    "NaN": (np.nan,),
    "infinity": (np.inf,),
    "-infinity": (-np.inf,),
    "all of them": (np.nan, np.inf, -np.inf),
    "zeros": (0.0, -0.0),
}
POSITIONS = ("first", "last", "one", "several", "all")
TOLERANCES = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-6}
"""Tolerance relative to the largest number, by dtype. It is wide: rounding is tested elsewhere."""

Kind = tuple[str, str]
"""The kinds of number (see `kind_of`) that JAX and the file compute for the same element."""


@dataclass
class Observation:
    """Number of differences by kind, an example of each kind, and the file that has them."""

    export: Export
    kinds: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, str] = field(default_factory=dict)


def observe(
    program: Program,
    opset: int,
    *,
    strict: bool = False,
    dtype: str = "float32",
    levels: Sequence[Level] = ("all",),
    rounds: int = 1,
) -> Observation:
    """Convert a program, and compare the file with JAX for each row of `PLANTED` in each operand.

    The comparison is repeated for each optimization level, with new numbers in each round.
    """
    specs = [(shape, dtype) for shape in program.shapes]
    observation = Observation(converter.to_onnx(program.fn, specs, opset=opset, strict=strict))
    sessions = {level: session(observation.export, level=level) for level in levels}
    compiled, rng = jax.jit(lambda *operands: program.fn(*operands)), np.random.default_rng(0)
    for _ in range(rounds):
        for description, operands in plant(program, dtype, rng):
            expected = [np.asarray(y) for y in jax.tree.leaves(compiled(*operands))]
            for level, model in sessions.items():
                results = run(model, operands).values()
                for actual, reference in zip(results, expected, strict=True):
                    for kind, example in find_differences(actual, reference, TOLERANCES[dtype]):
                        observation.kinds[kind] += 1
                        observation.examples.setdefault(
                            kind, f"{example} with {description} ({level})"
                        )
    return observation


def plant(
    program: Program, dtype: str, rng: np.random.Generator
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield operands of ordinary numbers with special numbers in one of them, and a description."""
    for operand, (name, numbers), position in product(
        range(len(program.shapes)), PLANTED.items(), POSITIONS
    ):
        operands = [rng.standard_normal(shape).astype(dtype) for shape in program.shapes]
        flat = operands[operand].reshape(-1)
        positions = {"first": [0], "last": [flat.size - 1], "all": range(flat.size)}
        count = 1 if position == "one" else min(flat.size, 4)
        indices = positions.get(position, rng.choice(flat.size, count, replace=False))
        flat[indices] = rng.choice(numbers, len(indices))
        yield f"{name} {position} in operand {operand}", operands


def find_differences(
    actual: np.ndarray, expected: np.ndarray, digits: float
) -> Iterator[tuple[Kind, str]]:
    """Yield each kind of difference between two arrays, with a description of the first element."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if not jnp.issubdtype(expected.dtype, jnp.floating):
        for i in np.argwhere(actual != expected)[:1]:
            yield ("integer", "integer"), f"{actual[tuple(i)]}, not {expected[tuple(i)]}"
        return
    tolerance = Tolerance(digits / float(jnp.finfo(expected.dtype).eps), 1.0, of_largest=True)
    is_other = count_units(actual, expected, tolerance) > tolerance.units
    kinds = set[Kind]()
    for i in map(tuple, np.argwhere(is_other)):
        kind = kind_of(expected[i]), kind_of(actual[i])
        if kind not in kinds:
            kinds.add(kind)
            yield kind, f"{actual[i]}, not {expected[i]} at {list(map(int, i))}"


def kind_of(number: Any) -> str:
    """Return "NaN", "infinity" or "number"."""
    if np.isnan(number):
        return "NaN"
    return "infinity" if np.isinf(number) else "number"
