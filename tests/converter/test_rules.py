"""Sources and rules of the converter: rules name all parameters, and functions are short.

Each primitive with a rule is traced from an example.
"""

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
from converter.errors import ConverterError, UnsupportedError
from converter.frontend.inline import HINTS
from converter.frontend.trace import trace
from converter.ir import Graph, make_node, ops
from converter.jax_versions import named_params
from converter.lower import lower, lowerings
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from tests.conformance import spec_of
from tests.programs.primitives import BINARY, CHOOSING, INDEXED, SUMMING, UNARY
from tests.since import needs, since

FILES = sorted(Path(converter.__file__).parent.rglob("*.py"))


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Return all syntax nodes of the converter's sources, with the paths of their files."""
    return [(path, node) for path in FILES for node in ast.walk(ast.parse(path.read_text()))]


# ------------------------------------------------------------------------------------- parameters

X, N = (3, 4), ((3, 4), np.int32)
ROW, INDEX = ((2,), np.int32), ((), np.int32)
Example = tuple[Callable[..., Any], Sequence[Any]]

WINDOW = {
    **{"window_dimensions": (1, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 1))},
    **{"base_dilation": (1, 1), "window_dilation": (1, 1)},
}
OF_BITS = ("bitwise", "shift", "clz", "population")
EXAMPLES: dict[str, Example] = {
    **{
        name.removeprefix("bitwise_"): (fn, [N if name.startswith(OF_BITS) else X] * count)
        for table, count in ((UNARY, 1), (BINARY, 2))
        for name, fn in table.items()
        if hasattr(lax, name)
    },
    **{
        name: (fn, [X, INDEX] if name in INDEXED else [X])
        for name, fn in {**CHOOSING, **SUMMING}.items()
        if hasattr(lax, f"{name.replace('-', '_')}_p")
    },
    "round": (lax.round, [X]),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), [X]),
    "clamp": (lambda x: lax.clamp(0.0, x, 1.0), [X]),
    "convert_element_type": (lambda x: lax.convert_element_type(x, jnp.float16), [X]),
    "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, jnp.int32), [X]),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, X, 1), [X]),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, *X), (1, 2)), [X]),
    "tile": (lambda x: lax.tile(x, (2, 1)), [X]),
    "dim_as_value": (lambda x: x + jnp.float32(x.shape[0]), [("B", 4)]),
    "scatter-sub": (lambda x, i: x.at[i].subtract(x[:2]), [X, ROW]),
    # Primitives that are replaced by others before they are lowered.
    "dot_general": (lambda x, y: x @ y.T, [X, X]),
    "conv_general_dilated": (lambda x: lax.conv(x[None], x[None], (1,), "SAME"), [X]),
    "reduce_window_max": (lambda x: lax.reduce_window_max_p.bind(x, **WINDOW), [X]),
    "reduce_window_min": (lambda x: lax.reduce_window_min_p.bind(x, **WINDOW), [X]),
    "reduce_window_sum": (lambda x: lax.reduce_window_sum_p.bind(x, **WINDOW), [X]),
    "squeeze": (lambda x: lax.squeeze(x[:1], (0,)), [X]),
    "slice": (lambda x: lax.slice(x, (1, 0), (3, 4), (1, 2)), [X]),
}
"""By primitive: a function that calls it, and the specs of its inputs."""

SINCE = {"tile": "0.9"}
"""By primitive: the version of JAX from which on its example can be traced."""

NEWER = {"one_minus_square", "polynomial", "eq_to", "le_to", "lt_to", "add_any"}
"""Primitives without examples: those of jax >= 0.12, and those that only transformations emit.

None of them has parameters.
"""

PASSED_ON = {"cond", "while", "scan"}
"""Primitives whose parameters are replaced, since their jaxprs become bodies of nodes."""

READ = {
    "scatter-sub": {"dimension_numbers", "mode"},
    "dot_general": {"dimension_numbers", "precision", "preferred_element_type"},
    "conv_general_dilated": {
        *("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers"),
        *("feature_group_count", "batch_group_count", "precision", "preferred_element_type"),
    },
    **dict.fromkeys((f"reduce_window_{name}" for name in ("max", "min", "sum")), WINDOW.keys()),
    "squeeze": {"dimensions"},
    "reshape": {"new_sizes", "dimensions"},
    "bitcast_convert_type": {"new_dtype"},
}
"""By primitive that passes replace: the parameters that they read.

The preferred element type is the dtype of the result.
"""


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield every equation of a jaxpr and of the jaxprs in its equations' parameters."""
    for eqn in jaxpr.eqns:
        yield eqn
        for param in eqn.params.values():
            inner = getattr(param, "jaxpr", param)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def trace_example(name: str) -> tuple[dict[str, Any], Graph]:
    """Return the parameters of a primitive in the jaxpr of its example, and the example's graph."""
    fn, specs = EXAMPLES[name]
    (size,) = jax.export.symbolic_shape("B")
    structs = [
        jax.ShapeDtypeStruct([size if d == "B" else d for d in shape], dtype)
        for shape, dtype in map(spec_of, specs)
    ]
    matching_equations = [
        e for e in equations(jax.make_jaxpr(fn)(*structs).jaxpr) if e.primitive.name == name
    ]
    assert matching_equations, f"the example of {name} does not call it"
    return dict(named_params(matching_equations[0])), trace(fn, specs)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs(SINCE.get(name, "")))
        for name in sorted(EXAMPLES.keys() - PASSED_ON)
    ],
)
def test_rules_know_all_parameters(name):
    """Each parameter of the primitive is a hint, or is in the node and known to the rule."""
    params, graph = trace_example(name)
    node = next(n for n in graph.walk() if n.op.name == name)
    assert node.params.keys() == params.keys() - HINTS
    entry = lowerings.find_lowering(ops.op_by_name(name), 26)
    known = READ.get(name, set()) if entry is None or name in READ else entry.reads | entry.ignores
    assert node.params.keys() <= known, node.params.keys() - known


def test_every_primitive_with_a_rule_has_an_example():
    names_with_rule = {op.name for op in lowerings.BUILTIN_RULES if op.formula is None}
    assert names_with_rule - EXAMPLES.keys() - NEWER == set()


def test_unknown_parameters_are_rejected():
    value = trace(lambda x: x, [X]).inputs[0]
    node = make_node(ops.abs, [value], [(X, np.dtype(np.float32))], {"bias": 3})
    with pytest.raises(UnsupportedError, match="does not know bias"):
        lower(Graph([value], node.outputs, [node], [], ["y"]), 23, find_target(DEFAULT_TARGET))


def test_rules_cannot_take_unnamed_parameters():
    with pytest.raises(ConverterError, match="name its parameters"):

        @lowerings.lowers("nothing")
        def _(b: Any, x: Any, **_: Any) -> Any:
            return x


# ----------------------------------------------------------------------------------------- dtypes


@since("0.10")
def test_products_of_a_wider_dtype_agree_with_jax():
    def fn(x: Any) -> Any:
        return lax.mul(x, x, out_dtype=jnp.float32)

    x = np.array([300, -7, 0.1], np.float16)  # 300² is no float16
    converter.to_onnx(fn, [x], verify=[x])


# ---------------------------------------------------------------------------------------- sources


def test_functions_name_or_pass_on_all_parameters():
    """No function of the converter takes parameters that it does not name or pass on."""
    for path, node in nodes():
        if isinstance(node, ast.arguments) and node.kwarg is not None:
            assert not node.kwarg.arg.startswith("_"), f"{path}:{node.kwarg.lineno}"


def test_functions_are_short():
    """No function of the converter has more than 40 lines, not counting its docstring."""
    for path, node in nodes():
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno + 1 - body[0].lineno if body else 0
            assert length <= 40, f"{path}:{node.name}"
