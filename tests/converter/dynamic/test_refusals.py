"""Errors about symbolic dimensions name the dimension, the source line and the remedy."""

import ast
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter


def check_multiples(x, y):
    assert x.shape[0] % 8 == 0
    return x * 2


TABLE = np.arange(512, dtype=np.float32)
REFUSED = {
    "a comparison": (
        lambda x, y: x if x.shape[0] > 4 else -x,
        r"dimension 'h': .*; say which it is: constraints=\['h >= 5'\] or \['h <= 4'\]",
    ),
    "linspace": (
        lambda x, y: jnp.linspace(0.0, 1.0, y.shape[0]),
        r"dimension 'w': .*constraints=\['w >= 2'\] or \['w <= 1'\]",
    ),
    "two names": (
        lambda x, y: x + y,
        r"dimensions 'h' and 'w': .*give them one name, or .*constraints=\['h == w'\]",
    ),
    "a reshape": (lambda x, y: x.reshape(-1, 2), r"constraints=\['mod\(h, 2\) == 0'\]"),
    "a reshape of rows": (
        lambda x, y: (x[:, None] * jnp.ones(6)).reshape(-1, 4, 6),
        r"dimension 'h': .*if it always is a multiple, say so: constraints=\['mod\(h, 4\) == 0'\]",
    ),
    "even and odd rows": (
        lambda x, y: jnp.stack([x[::2], x[1::2]]),
        r"dimension 'h': .*if it always is a multiple, say so: constraints=\['mod\(h, 2\) == 0'\]",
    ),
    "an assertion": (
        check_multiples,
        r"dimension 'h': .*if it always is a multiple, say so: constraints=\['mod\(h, 8\) == 0'\]",
    ),
    "two multiples": (
        lambda x, y: (x[:, None] * y).reshape(-1, 2, y.shape[0] // 2, 2),
        r"'h' and 'w': .*if they always are multiples, say so: constraints=\['mod\(h, 2\) == 0', ",
    ),
    "a number": (lambda x, y: x * int(x.shape[0]), r"dimension 'h': .*need a number there"),
    "numpy": (lambda x, y: x + np.zeros(x.shape[0]), r"'h': .*need a number there"),
    "one": (lambda x, y: jnp.squeeze(x, 0), r"'h': .*it can with 1"),
    "an associative scan": (lambda x, y: lax.associative_scan(jnp.add, x), r"dimension 'h'"),
    "decompositions": (
        lambda x, y: jnp.linalg.qr(x[:, None] * y),
        r"primitive 'qr' \(float32\[h,w\]\) cannot be written with the dimensions 'h' and 'w'",
    ),
    "a window": (
        lambda x, y: lax.reduce_window(x, 0.0, lax.add, (x.shape[0] // 2 + 1,), (1,), "VALID"),
        r"window_dimensions have the dimension 'floordiv\(h, 2\) \+ 1', and need numbers",
    ),
    "a table": (
        lambda x, y: x + jnp.arange(9.0)[: x.shape[0]],
        r"dimension 'h': .*if it is never larger, say so: constraints=\['h <= 9'\]",
    ),
    "a long table": (
        lambda x, y: x + jnp.arange(512.0)[: x.shape[0]],
        r"dimension 'h': .*if it is never larger, say so: constraints=\['h <= 512'\]",
    ),
    "an array of a table": (
        lambda x, y: y + jnp.asarray(TABLE)[: y.shape[0]],
        r"dimension 'w': .*if it is never larger, say so: constraints=\['w <= 512'\]",
    ),
    "halves": (
        lambda x, y: x + jnp.arange(0.5, x.shape[0]),
        r"dimension 'h': .*start from a whole number: jnp\.arange\(0, h\) \+ 0\.5",
    ),
    "a branch on numbers": (lambda x, y: x if x[0] > 0 else y, r"jnp\.where or jax\.lax\.cond"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_is_one_sentence_with_the_source_line(name):
    fn, pattern = REFUSED[name]
    with pytest.raises(converter.UnsupportedError) as caught:
        converter.to_onnx(fn, [("h",), ("w",)])
    text = str(caught.value)
    assert re.search(pattern, text), text
    assert "\n" not in text
    assert re.search(r"\[.*test_refusals\.py:\d+ \(.*\)\]$", text), text


@pytest.mark.parametrize(
    "name", [name for name, (_, pattern) in REFUSED.items() if "constraints=" in pattern]
)
def test_suggested_constraints_suffice(name):
    """A function converts once the constraints that the error suggests are declared."""
    fn, specs = REFUSED[name][0], [("h",), ("w",)]
    with pytest.raises(converter.UnsupportedError) as caught:
        converter.to_onnx(fn, specs)
    constraints = ast.literal_eval(re.search(r"constraints=(\[.*?\])", str(caught.value))[1])
    exported = converter.to_onnx(fn, specs, constraints=constraints)
    assert converter.check(exported, fn).passed


def test_obstacles_have_lines():
    explanation = converter.explain(REFUSED["linspace"][0], [("h",), ("w",)])
    assert not explanation.is_complete
    assert "test_refusals.py" in explanation.obstacles[0].lines[0]


def test_other_errors_are_not_changed():
    with pytest.raises(ValueError, match="invalid literal"):
        converter.to_onnx(lambda x: int("wrong at any size"), [("h",)])
    with pytest.raises(TypeError, match="incompatible shapes"):
        converter.to_onnx(lambda x: x[:3] + jnp.ones(4), [(9,)])
    with pytest.raises(converter.SpecError, match="'h' cannot be computed from the shape of any"):
        converter.to_onnx(lambda x: jnp.arange(x.shape[0]), [("h*w",)])


# A dimension that is symbolic in one input and a number in another; JAX needs them to be equal.
MIXED = {
    "where": lambda x, y: jnp.where(x > 0, x, y),
    "concatenate": lambda x, y: jnp.concatenate([x, y], 1),
    "einsum": lambda x, y: jnp.einsum("bi,bi->b", x, y),
    "scan": lambda x, y: lax.scan(lambda c, xy: (c, xy[0] * xy[1]), 0.0, (x, y))[1],
    "dynamic_update_slice": lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)),
    "sort": lambda x, y: lax.sort((x, y), num_keys=1, dimension=0),
    "reshape of more": lambda x, y: (x[:, None] * jnp.ones((5, 1))).reshape(*y.shape, 5),
    "cond": lambda x, y: lax.cond(x.sum() > 0, lambda: x, lambda: y),
    "segment_sum": lambda x, y: jax.ops.segment_sum(x, (y[:, 0] > 0).astype(int), 4),
}


@pytest.mark.parametrize("specs", [(("B", 3), (4, 3)), ((4, 3), ("B", 3))], ids=["first", "last"])
@pytest.mark.parametrize("name", MIXED)
def test_mixed_dimension_is_refused_or_runs(name, specs):
    """A mixed dimension is refused by its name, or the file also runs at another size."""
    fn = MIXED[name]
    try:
        export = converter.to_onnx(fn, list(specs))
    except converter.UnsupportedError as error:
        assert "dimension 'B'" in str(error)
        assert "specs" in str(error) or "constraints=" in str(error)
        return
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal([7 if d == "B" else d for d in s], np.float32) for s in specs]
    assert converter.check(export, fn, arrays).passed


@pytest.mark.parametrize(
    ("dtype", "function"),
    [(np.int32, jnp.sin), (np.float32, lambda v: v > 0), (np.bool_, lambda v: v + 1),
     (np.float16, lambda v: v.astype(np.float32)), (np.complex64, jnp.abs)],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(4, 5), ("B", 5)])
def test_apply_function_of_another_dtype_is_refused_as_in_jax(dtype, function, shape):
    def fn(x):
        return x.at[np.array([2, 0], np.int32), 1].apply(function)

    with pytest.raises(ValueError, match=r"reduction-region's parameter"):
        jax.jit(fn)(jnp.ones((4, 5), dtype))
    with pytest.raises(converter.UnsupportedError, match=r"returns \w+ for \w+, which JAX itself"):
        converter.to_onnx(fn, [(shape, dtype)])
