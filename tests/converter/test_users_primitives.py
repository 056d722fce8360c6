"""Primitives of users, which may have any name and need no rule, compared with JAX.

Their implementations are traced, or users register rules for them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equinox.internal import create_vprim, filter_primitive_bind, filter_primitive_def
from jax import lax
from jax.extend.core import Primitive, primitives
from jax.interpreters import ad, batching, mlir

import converter
from converter.frontend.array_forms import DRAWING_PRIMITIVES, IDENTITY_PRIMITIVES
from converter.frontend.calls import CALLS, REPLACEMENTS, is_user_primitive
from converter.frontend.inline import CONTROL_FLOW, DROPPED_PRIMITIVES, HINTS
from converter.frontend.refused import REFUSAL_REASONS
from converter.ir.ops import defined_ops
from tests.conformance import Case, assert_exports
from tests.programs.ways import WRAPS, wrapped

X = np.random.default_rng(11).standard_normal((3, 4)).astype(np.float32)


pytestmark = pytest.mark.usefixtures("scope")


def _affine(x, *, a=3.0, b=1.0, **_):
    return a * x + b


def user_primitive(name, impl=_affine):
    """Return an elementwise primitive with rules for shapes, batching, lowering and derivatives.

    It has no implementation if ``impl`` is None.
    """

    def jvp(xs, ts, a=3.0, **p):
        return primitive.bind(*xs, a=a, **p), a * ad.instantiate_zeros(ts[0])

    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x, **_: x)
    if impl is not None:
        primitive.def_impl(impl)
    mlir.register_lowering(primitive, mlir.lower_fun(impl or _affine, multiple_results=False))
    batching.primitive_batchers[primitive] = lambda xs, ds, **p: (primitive.bind(*xs, **p), ds[0])
    ad.primitive_jvps[primitive] = jvp
    return primitive


# ------------------------------------------------------------------ primitives with reserved names

TABLES = (
    CALLS,
    REPLACEMENTS,
    DROPPED_PRIMITIVES,
    CONTROL_FLOW,
    REFUSAL_REASONS,
    IDENTITY_PRIMITIVES,
    DRAWING_PRIMITIVES,
)
RESERVED_NAMES = sorted({op.name for op in defined_ops()}.union(*TABLES))
RESERVED_NAMES.remove("call_exported")
"""All names of primitives that the converter knows.

`call_exported` is left out, because JAX recognises that primitive by its name.
"""


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_user_primitives_may_have_reserved_names(step):
    """User primitives with names that the converter knows are not taken for JAX's primitives.

    One program has a primitive of each name, in the default tier of each fifth name.
    """
    assert len(RESERVED_NAMES) > 300
    user_primitives = [user_primitive(name) for name in RESERVED_NAMES[::step]]

    def fn(x):
        return jnp.stack([p.bind(x, a=float(i), b=2.0) for i, p in enumerate(user_primitives)])

    (actual,) = converter.run(converter.to_onnx(fn, [X]), [X]).values()
    np.testing.assert_allclose(
        actual, [i * X + 2 for i in range(len(user_primitives))], rtol=1e-6, atol=1e-4
    )


def test_primitives_of_jax_are_no_user_primitives():
    for name, value in vars(primitives).items():
        assert not (isinstance(value, Primitive) and is_user_primitive(value)), name
    assert is_user_primitive(user_primitive("sin"))


def test_parameters_called_like_hints_reach_a_rule():
    primitive = user_primitive("hinted")

    @converter.rule("hinted")
    def _(b, x, *, a, accuracy, unroll, sharding, is_stable):
        return b.op("Mul", x, b.like(accuracy + unroll + sharding + is_stable))

    fn = lambda x: primitive.bind(x, a=0, accuracy=1, unroll=2, sharding=3, is_stable=4)  # noqa: E731
    export = converter.to_onnx(fn, [X])
    np.testing.assert_allclose(converter.run(export, [X])["output_0"], 10 * X, rtol=1e-6)
    assert {"accuracy", "unroll", "sharding", "is_stable"} <= HINTS


# ----------------------------------------------------------------------- rules for one primitive


def _lower_as(operator, primitive):
    """Register a rule that lowers a primitive, or all of a name, to one operator."""
    converter.rule(primitive, ignores=("a", "b"))(lambda b, x: b.op(operator, x))


def test_rules_are_for_the_primitive_that_is_named():
    """A rule for a name is for the user's primitive of that name, or else for JAX's primitive.

    A rule for a primitive is for that primitive alone.
    """
    first, second = user_primitive("tanh"), user_primitive("tanh")

    def operators_of(fn):
        return converter.to_onnx(fn, [X]).report.histogram

    with converter.extensions():
        _lower_as("Softsign", "tanh")
        assert operators_of(lambda x: jnp.tanh(first.bind(x))) == {"Softsign": 1, "Tanh": 1}
        assert operators_of(jnp.tanh) == {"Softsign": 1}

    def both(x):
        return jnp.tanh(first.bind(second.bind(x)))

    with converter.extensions():
        converter.expansion(first, ignores=("a", "b"))(jnp.sinh)
        assert operators_of(both) == {"Add": 1, "Mul": 1, "Sinh": 1, "Tanh": 1}
    _lower_as("Softsign", first)
    _lower_as("Softplus", second)
    assert operators_of(both) == {"Softplus": 1, "Softsign": 1, "Tanh": 1}
    _lower_as("Erf", lax.tanh_p)
    assert operators_of(jnp.tanh) == {"Erf": 1}


# --------------------------------------------------------------------------------- implementations

inner, outer = (
    user_primitive("inner"),
    user_primitive("outer", lambda x, **p: inner.bind(x, **p) * 2),
)


def _shifted_copies(x, *, n):
    return [x + i for i in range(n)]


pair = Primitive("pair")
pair.multiple_results = True
pair.def_abstract_eval(lambda x, *, n: [x] * n)
pair.def_impl(_shifted_copies)
mlir.register_lowering(pair, mlir.lower_fun(_shifted_copies, multiple_results=True))
batching.primitive_batchers[pair] = lambda xs, ds, n: (pair.bind(*xs, n=n), ds * n)
nested = user_primitive(
    "nested", lambda x, *, depth: 2 * nested.bind(x, depth=depth - 1) if depth else x + 1
)
jitted = user_primitive("jitted", jax.jit(_affine, static_argnames=("a", "b")))
FORMS = [
    Case("parameters", lambda x: jitted.bind(x, a=2.0, b=3.0)),
    Case("of another", outer.bind),
    Case("of itself, smaller", lambda x: nested.bind(x, depth=3)),
    Case("several results", lambda x: pair.bind(x, n=3)[1:]),
    Case("twice differentiated", jax.grad(lambda x: (jitted.bind(jitted.bind(x)) ** 2).sum())),
]


@pytest.mark.each("case", "transformation")
@pytest.mark.parametrize("transformation", WRAPS)
@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.name)
def test_implementations_are_traced(case, transformation):
    assert_exports(wrapped(case, transformation))


def test_batched_primitives_of_equinox_agree_with_jax():
    def impl(x, y):
        return jnp.linalg.solve(x, y), y

    parts = filter_primitive_def(impl), filter_primitive_def(lambda x, y: (y, y))
    primitive = create_vprim("of_a_package", *parts, None, None)
    fn = lambda x, y: filter_primitive_bind(primitive, x, y)[0]  # noqa: E731
    a = np.eye(4, dtype=np.float32) * 3 + X[:1] * X[:1].T
    assert_exports(Case("plain", fn, [a, X[0]], tolerance=4))
    assert_exports(Case("vmap", jax.vmap(fn, in_axes=(None, 1)), [a, X.T.copy()], tolerance=4))


dispatched = user_primitive("dispatched")
dispatched.def_impl(lambda x, **p: jax.jit(lambda y: dispatched.bind(y, **p))(x))
UNTRACEABLE = {
    user_primitive("numpy", lambda x, **_: np.asarray(x) * 2): "__array__",
    user_primitive("none", None): "not implemented",
    dispatched: "it binds the primitive itself",
}
"""By primitive: the reason why its implementation cannot be traced."""


@pytest.mark.parametrize("primitive", UNTRACEABLE, ids=str)
def test_untraceable_implementations_are_rejected(primitive):
    """A primitive that cannot be traced is an obstacle among others, with its reason."""
    fn = lambda x: jnp.sin(primitive.bind(x)) + jnp.linalg.eigvals(x[:3, :3]).real.sum()  # noqa: E731
    assert len(converter.explain(fn, [X]).obstacles) == 2
    message = rf"primitive '{primitive}'.*{UNTRACEABLE[primitive]}.*test_users"
    with pytest.raises(converter.UnsupportedError, match=message):
        converter.to_onnx(fn, [X])


def test_primitives_without_results_are_rejected():
    primitive = Primitive("silent")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x: [])
    primitive.def_impl(lambda x: [])
    with pytest.raises(converter.UnsupportedError, match=r"'silent'.*no result"):
        converter.to_onnx(lambda x: (primitive.bind(x), x)[1], [X])
