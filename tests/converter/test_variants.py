"""However something is spelled, it is recognised, or the report says why it was not."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.ir.evaluation import evaluate
from tests.conformance import TOLERANCE
from tests.converter.variants import STRUCTURES, Structure, choices, covering

COVERING = [(name, c) for name, s in STRUCTURES.items() for c in covering(s.table, seed=1)]


def assert_named_or_said(
    structure: Structure, chosen: Mapping[str, str], dtype: Any = np.float32, how: str = "plain"
) -> None:
    """It has its name or a reason in the report, and means the same in JAX and ONNX Runtime."""
    drawn = structure.put_together(chosen, dtype)
    fn, args = drawn.fn, list(drawn.args)
    if how != "plain":
        axis = int(how.removeprefix("vmap"))
        fn = jax.vmap(fn, in_axes=axis)
        args = [np.stack([x, x[..., ::-1].copy()], axis) for x in args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what JAX says about float16
        export = converter.to_onnx(fn, args, opset=23)
    fused = sum(export.report.fused[name] for name in structure.names)
    reasons = [m.reason for m in export.report.near_misses if m.pattern in structure.names]
    options = frozenset(drawn.choices.values())
    assert fused or reasons, export.graph
    if not options & structure.may:
        assert bool(fused) != bool(options & structure.left), (reasons, export.graph)
    wanted = jax.tree.leaves(jax.jit(fn)(*args))
    assert_near(evaluate(export.graph, args), wanted, dtype)
    assert_near(converter.run(converter.session(export), args).values(), wanted, dtype)


def assert_near(given: Iterable[Any], wanted: Sequence[Any], dtype: Any) -> None:
    tolerance = TOLERANCE[jnp.dtype(dtype).name]
    for got, want in zip(given, wanted, strict=True):
        a, b = (np.asarray(y, np.float64) for y in (got, want))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


@pytest.mark.parametrize(
    ("name", "chosen"), COVERING, ids=lambda x: x if isinstance(x, str) else ""
)
def test_every_option_once(name, chosen):
    assert_named_or_said(STRUCTURES[name], chosen)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("how", ["plain", "vmap0", "vmap1", "vmap-1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", STRUCTURES)
def test_random_spellings(name, dtype, how, seed):
    structure = STRUCTURES[name]
    chosen = choices(structure.table, np.random.default_rng(seed))
    assert_named_or_said(structure, chosen, dtype, how)
