"""Programs run with NaN and infinities in one of their operands, and where files differ then."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

import converter
from converter.model.results import Export
from converter.model.verdict import Level
from converter.verify.sessions import run, session
from tests.converter.operators.programs import Program

PLANTED = {
    "NaN": (np.nan,),
    "infinity": (np.inf,),
    "-infinity": (-np.inf,),
    "all of them": (np.nan, np.inf, -np.inf),
    "zeros": (0.0, -0.0),
}
POSITIONS = ("first", "last", "one", "several", "all")
DIGITS = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-6}
"""How far numbers may be apart for the largest of them: what is looked for here is no rounding."""

Kind = tuple[str, str]
"""What JAX has, and what the file has in its place."""


@dataclass
class Observation:
    """Differences by kind, with an example of each, and the file that they were seen in."""

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
    """Plant each kind of number in each operand, and compare the file with JAX."""
    specs = [(shape, dtype) for shape in program.shapes]
    seen = Observation(converter.to_onnx(program.fn, specs, opset=opset, strict=strict))
    live = {level: session(seen.export, level=level) for level in levels}
    compiled, rng = jax.jit(lambda *operands: program.fn(*operands)), np.random.default_rng(0)
    for _ in range(rounds):
        for where, operands in planted(program, dtype, rng):
            wanted = [np.asarray(y) for y in jax.tree.leaves(compiled(*operands))]
            for level, model in live.items():
                results = run(model, operands).values()
                for got, right in zip(results, wanted, strict=True):
                    for kind, example in differing(got, right, DIGITS[dtype]):
                        seen.kinds[kind] += 1
                        seen.examples.setdefault(kind, f"{example} with {where} ({level})")
    return seen


def planted(
    program: Program, dtype: str, rng: np.random.Generator
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Operands of ordinary numbers, but for what is planted in one of them."""
    for operand, (what, numbers), position in product(
        range(len(program.shapes)), PLANTED.items(), POSITIONS
    ):
        operands = [rng.standard_normal(shape).astype(dtype) for shape in program.shapes]
        flat = operands[operand].reshape(-1)
        places = {"first": [0], "last": [flat.size - 1], "all": range(flat.size)}
        count = 1 if position == "one" else min(flat.size, 4)
        chosen = places.get(position, rng.choice(flat.size, count, replace=False))
        flat[chosen] = rng.choice(numbers, len(chosen))
        yield f"{what} {position} in operand {operand}", operands


def differing(got: np.ndarray, wanted: np.ndarray, digits: float) -> Iterator[tuple[Kind, str]]:
    """Each kind of difference between two arrays, with the first of its elements."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    if not jnp.issubdtype(wanted.dtype, jnp.floating):
        for i in np.argwhere(got != wanted)[:1]:
            yield ("integer", "integer"), f"{got[tuple(i)]}, not {wanted[tuple(i)]}"
        return
    one, two = got.astype(np.float64), wanted.astype(np.float64)
    largest = np.max(np.abs(two), where=np.isfinite(two), initial=1)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    both = np.isfinite(one) & np.isfinite(two)
    apart = np.subtract(one, two, where=both, out=np.full(one.shape, np.inf))
    near = np.abs(apart) <= digits * largest
    kinds = set[Kind]()
    for i in map(tuple, np.argwhere(~(same | near))):
        kind = kind_of(two[i]), kind_of(one[i])
        if kind not in kinds:
            kinds.add(kind)
            yield kind, f"{one[i]}, not {two[i]} at {list(map(int, i))}"


def kind_of(number: float) -> str:
    """NaN, an infinity or a number."""
    if np.isnan(number):
        return "NaN"
    return "infinity" if np.isinf(number) else "number"
