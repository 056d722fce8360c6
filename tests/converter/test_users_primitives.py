"""A user's primitive is the user's own, whatever it is called, and needs no rule."""

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


@pytest.fixture(autouse=True)
def scope():
    with converter.extensions():
        yield


def _affine(x, *, a=3.0, b=1.0, **_):
    return a * x + b


def users(name, impl=_affine):
    """An elementwise primitive with everything that JAX can be told of it."""

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


# ------------------------------------------------------------------------------------ whose it is

TABLES = (
    CALLS,
    REPLACEMENTS,
    DROPPED_PRIMITIVES,
    CONTROL_FLOW,
    REFUSAL_REASONS,
    IDENTITY_PRIMITIVES,
    DRAWING_PRIMITIVES,
)
TAKEN = sorted({op.name for op in defined_ops()}.union(*TABLES))
TAKEN.remove("call_exported")
"""Every name that the converter knows, but one by which JAX itself knows its own."""


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_names_that_are_taken(every):
    """One program with a primitive of each, by default of each fifth."""
    assert len(TAKEN) > 300
    own = [users(name) for name in TAKEN[::every]]

    def fn(x):
        return jnp.stack([p.bind(x, a=float(i), b=2.0) for i, p in enumerate(own)])

    (got,) = converter.run(converter.to_onnx(fn, [X]), [X]).values()
    np.testing.assert_allclose(got, [i * X + 2 for i in range(len(own))], rtol=1e-6, atol=1e-4)


def test_jax_and_equinox_own_theirs():
    for name, value in vars(primitives).items():
        assert not (isinstance(value, Primitive) and is_user_primitive(value)), name
    assert is_user_primitive(users("sin"))


def test_parameters_called_like_hints_reach_a_rule():
    primitive = users("hinted")

    @converter.rule("hinted")
    def _(b, x, *, a, accuracy, unroll, sharding, is_stable):
        return b.op("Mul", x, b.like(accuracy + unroll + sharding + is_stable))

    fn = lambda x: primitive.bind(x, a=0, accuracy=1, unroll=2, sharding=3, is_stable=4)  # noqa: E731
    export = converter.to_onnx(fn, [X])
    np.testing.assert_allclose(converter.run(export, [X])["output_0"], 10 * X, rtol=1e-6)
    assert {"accuracy", "unroll", "sharding", "is_stable"} <= HINTS


# ------------------------------------------------------------------- what is registered for whom


def _named(operator, meant):
    converter.rule(meant, ignores=("a", "b"))(lambda b, x: b.op(operator, x))


def test_what_is_meant():
    """By a name the program's own primitive, or ours in a program without one; or one itself."""
    one, other = users("tanh"), users("tanh")

    def written(fn):
        return converter.to_onnx(fn, [X]).report.histogram

    with converter.extensions():
        _named("Softsign", "tanh")
        assert written(lambda x: jnp.tanh(one.bind(x))) == {"Softsign": 1, "Tanh": 1}
        assert written(jnp.tanh) == {"Softsign": 1}

    def both(x):
        return jnp.tanh(one.bind(other.bind(x)))

    with converter.extensions():
        converter.expansion(one, ignores=("a", "b"))(jnp.sinh)
        assert written(both) == {"Add": 1, "Mul": 1, "Sinh": 1, "Tanh": 1}
    _named("Softsign", one)
    _named("Softplus", other)
    assert written(both) == {"Softplus": 1, "Softsign": 1, "Tanh": 1}
    _named("Erf", lax.tanh_p)
    assert written(jnp.tanh) == {"Erf": 1}


# --------------------------------------------------------------------------------------- its impl

inner, outer = users("inner"), users("outer", lambda x, **p: inner.bind(x, **p) * 2)


def _several(x, *, n):
    return [x + i for i in range(n)]


pair = Primitive("pair")
pair.multiple_results = True
pair.def_abstract_eval(lambda x, *, n: [x] * n)
pair.def_impl(_several)
mlir.register_lowering(pair, mlir.lower_fun(_several, multiple_results=True))
batching.primitive_batchers[pair] = lambda xs, ds, n: (pair.bind(*xs, n=n), ds * n)
nested = users(
    "nested", lambda x, *, depth: 2 * nested.bind(x, depth=depth - 1) if depth else x + 1
)
jitted = users("jitted", jax.jit(_affine, static_argnames=("a", "b")))
FORMS = [
    Case("parameters", lambda x: jitted.bind(x, a=2.0, b=3.0)),
    Case("of another", outer.bind),
    Case("of itself, smaller", lambda x: nested.bind(x, depth=3)),
    Case("several results", lambda x: pair.bind(x, n=3)[1:]),
    Case("twice differentiated", jax.grad(lambda x: (jitted.bind(jitted.bind(x)) ** 2).sum())),
]


@pytest.mark.each("case", "how")
@pytest.mark.parametrize("how", WRAPS)
@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.name)
def test_its_impl_is_traced(case, how):
    assert_exports(wrapped(case, how))


def test_a_batched_primitive_of_equinox_kind():
    def impl(x, y):
        return jnp.linalg.solve(x, y), y

    parts = filter_primitive_def(impl), filter_primitive_def(lambda x, y: (y, y))
    primitive = create_vprim("of_a_package", *parts, None, None)
    fn = lambda x, y: filter_primitive_bind(primitive, x, y)[0]  # noqa: E731
    a = np.eye(4, dtype=np.float32) * 3 + X[:1] * X[:1].T
    assert_exports(Case("plain", fn, [a, X[0]], tolerance=4))
    assert_exports(Case("vmap", jax.vmap(fn, in_axes=(None, 1)), [a, X.T.copy()], tolerance=4))


dispatched = users("dispatched")
dispatched.def_impl(lambda x, **p: jax.jit(lambda y: dispatched.bind(y, **p))(x))
REFUSED_ONES = {
    users("numpy", lambda x, **_: np.asarray(x) * 2): "__array__",
    users("none", None): "not implemented",
    dispatched: "it binds the primitive itself",
}


@pytest.mark.parametrize("primitive", REFUSED_ONES, ids=str)
def test_what_cannot_be_traced(primitive):
    """It is refused with that reason, together with all others."""
    fn = lambda x: jnp.sin(primitive.bind(x)) + jnp.linalg.eigvals(x[:3, :3]).real.sum()  # noqa: E731
    assert len(converter.explain(fn, [X]).obstacles) == 2
    said = rf"primitive '{primitive}'.*{REFUSED_ONES[primitive]}.*test_users"
    with pytest.raises(converter.UnsupportedError, match=said):
        converter.to_onnx(fn, [X])


def test_what_has_no_result():
    primitive = Primitive("silent")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x: [])
    primitive.def_impl(lambda x: [])
    with pytest.raises(converter.UnsupportedError, match=r"'silent'.*no result"):
        converter.to_onnx(lambda x: (primitive.bind(x), x)[1], [X])
