"""Spellings of attention, rotations and norms: fused, or reported as a near miss with a reason.

The graph and the file are compared with JAX.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.ir.evaluation import evaluate
from tests.arrays import Tolerance, describe_difference
from tests.conformance import UNITS
from tests.converter.variants import STRUCTURES, Structure, choices, covering

COVERING = [(name, c) for name, s in STRUCTURES.items() for c in covering(s.table, seed=1)]


def assert_fused_or_reported(
    structure: Structure,
    chosen: Mapping[str, str],
    dtype: Any = np.float32,
    transformation: str = "plain",
) -> None:
    """Assert that a spelling is fused or reported, and that its graph and file agree with JAX.

    ``transformation`` is "plain", or the axis of a `vmap`, such as "vmap1".
    """
    program = structure.build(chosen, dtype)
    fn, args = program.fn, list(program.args)
    if transformation != "plain":
        axis = int(transformation.removeprefix("vmap"))
        fn = jax.vmap(fn, in_axes=axis)
        args = [np.stack([x, x[..., ::-1].copy()], axis) for x in args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns about float16
        export = converter.to_onnx(fn, args, opset=23)
    fused = sum(export.report.fused[name] for name in structure.names)
    reasons = [m.reason for m in export.report.near_misses if m.pattern in structure.names]
    options = frozenset(program.choices.values())
    assert fused or reasons, export.graph
    if not options & structure.may_stay_unfused:
        assert bool(fused) != bool(options & structure.unfused), (reasons, export.graph)
    expected = jax.tree.leaves(jax.jit(fn)(*args))
    assert_near(evaluate(export.graph, args), expected, dtype)
    assert_near(converter.run(converter.session(export), args).values(), expected, dtype)


def assert_near(results: Iterable[Any], expected: Sequence[Any], dtype: Any) -> None:
    """Assert that arrays agree within the tolerance of a dtype, relative to the largest element."""
    limits = Tolerance(UNITS[jnp.dtype(dtype).name], of_largest=True, zero_signs=False)
    for actual, reference in zip(results, expected, strict=True):
        assert not describe_difference(np.asarray(actual), np.asarray(reference), limits)


@pytest.mark.parametrize(
    ("name", "chosen"), COVERING, ids=lambda x: x if isinstance(x, str) else ""
)
def test_every_option_is_fused_or_reported(name, chosen):
    assert_fused_or_reported(STRUCTURES[name], chosen)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("transformation", ["plain", "vmap0", "vmap1", "vmap-1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", STRUCTURES)
def test_random_spellings_are_fused_or_reported(name, dtype, transformation, seed):
    structure = STRUCTURES[name]
    chosen = choices(structure.table, np.random.default_rng(seed))
    assert_fused_or_reported(structure, chosen, dtype, transformation)
