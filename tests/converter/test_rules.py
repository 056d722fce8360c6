"""Rules own their parameters, and functions are short."""

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.errors import ConverterError, Unsupported
from converter.frontend.inline import HINTS
from converter.frontend.trace import trace
from converter.ir import Graph, make_node, ops
from converter.lower import lower, lowerings
from converter.targets import DEFAULT, find_target

ROOT = Path(converter.__file__).parents[1]
FILES = sorted((ROOT / "converter").rglob("*.py"))


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """What the converter's sources are made of."""
    return [(path, node) for path in FILES for node in ast.walk(ast.parse(path.read_text()))]


# ------------------------------------------------------------------------------------- parameters

X, N = (3, 4), ((3, 4), np.int32)
ROW = ((2,), np.int32)
Example = tuple[Callable[..., Any], Sequence[Any]]


def _window(op: Any) -> Example:
    window = {"window_dimensions": (1, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 1))}
    dilations = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
    return lambda x: op.bind(x, **window, **dilations), [X]


SCATTERS: dict[str, str] = {
    "scatter": "set",
    "scatter-add": "add",
    "scatter-sub": "subtract",
    "scatter-mul": "multiply",
    "scatter-min": "min",
    "scatter-max": "max",
}
EXAMPLES: dict[str, Example] = {
    **{
        op.__name__: (op, [X])
        for op in (
            *(lax.abs, lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.cbrt),
            *(lax.ceil, lax.cos, lax.cosh, lax.digamma, lax.erf, lax.erf_inv, lax.erfc, lax.exp),
            *(lax.exp2, lax.expm1, lax.floor, lax.is_finite, lax.lgamma, lax.log, lax.log1p),
            *(lax.logistic, lax.neg, lax.round, lax.rsqrt, lax.sign, lax.sin, lax.sinh, lax.sqrt),
            *(lax.square, lax.tan, lax.tanh, lax.cumsum, lax.cumprod, lax.cummax, lax.cummin),
            *(lax.cumlogsumexp, lax.sort),
        )
    },
    **{
        op.__name__: (op, [X, X])
        for op in (
            *(lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.pow, lax.atan2),
            *(lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge),
        )
    },
    **{
        op.__name__: (op, [N, N])
        for op in (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)
    },
    "and": (lax.bitwise_and, [N, N]),
    "or": (lax.bitwise_or, [N, N]),
    "xor": (lax.bitwise_xor, [N, N]),
    "not": (lax.bitwise_not, [N]),
    "clz": (lax.clz, [N]),
    "population_count": (lax.population_count, [N]),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), [X]),
    "clamp": (lambda x: lax.clamp(0.0, x, 1.0), [X]),
    "select_n": (lambda x: lax.select_n(x > 0, x, -x), [X]),
    "convert_element_type": (lambda x: lax.convert_element_type(x, jnp.float16), [X]),
    "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, jnp.int32), [X]),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), [X]),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, X, 1), [X]),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, *X), (1, 2)), [X]),
    "reshape": (lambda x: lax.reshape(x, (12,)), [X]),
    "transpose": (lambda x: x.T, [X]),
    "concatenate": (lambda x: lax.concatenate([x, x], 0), [X]),
    "slice": (lambda x: lax.slice(x, (0, 1), (3, 3)), [X]),
    "split": (lambda x: lax.split(x, (1, 3), axis=1), [X]),
    "tile": (lambda x: lax.tile(x, (2, 1)), [X]),
    "rev": (lambda x: lax.rev(x, (0,)), [X]),
    "pad": (lambda x: lax.pad(x, 0.0, ((0, 1, 1), (0, 0, 0))), [X]),
    "dim_as_value": (lambda x: x + jnp.float32(x.shape[0]), [("B", 4)]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 2)), [X, ((), np.int32)]),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, x[:1], (i, 0)),
        [X, ((), np.int32)],
    ),
    "gather": (lambda x, i: x.at[i].get(mode="fill"), [X, ROW]),
    **{
        name: (lambda x, i, method=method: getattr(x.at[i], method)(x[:2]), [X, ROW])
        for name, method in SCATTERS.items()
    },
    **{
        f"reduce_{name}": (lambda x, fn=fn: fn(x, 1), [X])
        for name, fn in {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod}.items()
    },
    "reduce_and": (lambda x: jnp.all(x > 0, 1), [X]),
    "reduce_or": (lambda x: jnp.any(x > 0, 1), [X]),
    "reduce_xor": (lambda x: lax.reduce_xor(x > 0, (1,)), [X]),
    "argmax": (lambda x: jnp.argmax(x, 1), [X]),
    "argmin": (lambda x: jnp.argmin(x, 1), [X]),
    "top_k": (lambda x: lax.top_k(x, 2), [X]),
    "approx_top_k": (lambda x: lax.approx_max_k(x, 2), [X]),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda y: y, lambda y: -y, x), [X]),
    "while": (lambda x: lax.while_loop(lambda y: y[0, 0] < 9, lambda y: y + 1, x), [X]),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x), [X]),
    # brought into another form before they are written
    "dot_general": (lambda x, y: x @ y.T, [X, X]),
    "conv_general_dilated": (lambda x: lax.conv(x[None], x[None], (1,), "SAME"), [X]),
    "reduce_window_max": _window(lax.reduce_window_max_p),
    "reduce_window_min": _window(lax.reduce_window_min_p),
    "reduce_window_sum": _window(lax.reduce_window_sum_p),
    "squeeze": (lambda x: lax.squeeze(x[:1], (0,)), [X]),
}

NEWER = {"one_minus_square", "polynomial", "eq_to", "le_to", "lt_to", "add_any"}
"""Primitives of jax >= 0.12, or that only transformations write: none of them has parameters."""

PASSED_ON = {"cond", "while", "scan"}
"""Their jaxprs become bodies of nodes, and other parameters with them."""

READ = {
    "scatter-sub": {"dimension_numbers", "mode"},
    "dot_general": {"dimension_numbers", "precision", "preferred_element_type"},
    "conv_general_dilated": {
        *("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers"),
        *("feature_group_count", "batch_group_count", "precision", "preferred_element_type"),
    },
    **{
        key: {
            *("window_dimensions", "window_strides", "padding", "base_dilation"),
            "window_dilation",
        }
        for key in ("reduce_window_max", "reduce_window_min", "reduce_window_sum")
    },
    "squeeze": {"dimensions"},
    "reshape": {"new_sizes", "dimensions"},
    "bitcast_convert_type": {"new_dtype"},
}
"""What the passes know of primitives that they replace; results' dtypes say the preferred ones."""


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation, those of inner jaxprs included."""
    for eqn in jaxpr.eqns:
        yield eqn
        for param in eqn.params.values():
            inner = getattr(param, "jaxpr", param)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def traced(name: str) -> tuple[dict[str, Any], Graph]:
    """The parameters that JAX gives a primitive, and the graph that is traced from its example."""
    fn, specs = EXAMPLES[name]
    sizes = jax.export.symbolic_shape("B, 4") if ("B", 4) in specs else None
    structs = [
        _struct(s) if s != ("B", 4) else jax.ShapeDtypeStruct(sizes, "float32") for s in specs
    ]
    found = [e for e in equations(jax.make_jaxpr(fn)(*structs).jaxpr) if e.primitive.name == name]
    assert found, f"the example of {name} does not hold it"
    return dict(found[0].params), trace(fn, specs)


def _struct(spec: Any) -> jax.ShapeDtypeStruct:
    shape, dtype = spec if isinstance(spec[0], tuple) or spec[0] == () else (spec, np.float32)
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - PASSED_ON))
def test_no_parameter_vanishes(name):
    """Each is in the node, and known to the rule; or a hint that says nothing of the result."""
    params, graph = traced(name)
    node = next(n for n in graph.walk() if n.op.name == name)
    assert node.params.keys() == params.keys() - HINTS
    entry = lowerings.find_lowering(ops.named(name), 26)
    known = READ.get(name, set()) if entry is None or name in READ else entry.reads | entry.ignores
    assert node.params.keys() <= known, node.params.keys() - known


def test_every_primitive_with_a_rule_has_an_example():
    given = {op.name for op in lowerings.OWN_RULES if op.formula is None}
    assert given - EXAMPLES.keys() - NEWER == set()


def test_unknown_parameters_are_refused():
    value = trace(lambda x: x, [X]).inputs[0]
    node = make_node(ops.abs, [value], [(X, np.dtype(np.float32))], {"bias": 3})
    with pytest.raises(Unsupported, match="does not know bias"):
        lower(Graph([value], node.outputs, [node], [], ["y"]), 23, find_target(DEFAULT))


def test_a_rule_cannot_take_what_it_does_not_name():
    with pytest.raises(ConverterError, match="name its parameters"):

        @lowerings.lowers("nothing")
        def _(b: Any, x: Any, **_: Any) -> Any:
            return x


# ------------------------------------------------------------------------------------------- size


def test_products_of_a_wider_dtype():
    def fn(x: Any) -> Any:
        return lax.mul(x, x, out_dtype=jnp.float32)

    x = np.array([300, -7, 0.1], np.float16)  # 90000 is no float16
    converter.to_onnx(fn, [x], verify=[x])


def lines(function: ast.FunctionDef) -> int:
    """Lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_nothing_is_dropped_unseen():
    """No function of the converter takes parameters that it does not name or pass on."""
    for path, node in nodes():
        if isinstance(node, ast.arguments) and node.kwarg is not None:
            assert not node.kwarg.arg.startswith("_"), f"{path}:{node.kwarg.lineno}"


def test_functions_are_short():
    long = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path, node in nodes()
        if isinstance(node, ast.FunctionDef) and lines(node) > 40
    }
    assert long == set()
