"""JAX's transformations of functions."""

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.program import Spec
from tests.fuzz.steps.control import last
from tests.fuzz.steps.registry import step


def without(spec: Spec, axis: int) -> Spec:
    return Spec(spec.shape[:axis] + spec.shape[axis + 1 :], spec.dtype)


def loss(d: Draw) -> str:
    """A scalar of the floats that were made."""
    made = [n for n, s in d.pool.items() if n.startswith("v") and s.kind == "f"]
    if not made:
        raise Unfit
    value = d.rng.choice(made[-2:])
    return f"jnp.sum({value}" + d.choice(")", " ** 2)", " * 0.3)", ").astype('float32')")


@step(3)
def vmap(d: Draw) -> str:
    """One or two operands, over any axes."""
    x = d.any(rank=(1, 4))
    axis = d.axis(x, negative=False)
    size = d.pool[x].shape[axis]
    names, axes, specs = [x], [str(axis)], [without(d.pool[x], axis)]
    if d.chance(0.5):
        fits = [(n, i) for n, s in d.pool.items() for i, k in enumerate(s.shape) if k == size]
        y, place = d.rng.choice(fits)
        if d.chance(0.4):
            names.append(y), axes.append("None"), specs.append(d.pool[y])
        else:
            names.append(y), axes.append(str(place)), specs.append(without(d.pool[y], place))
    fn = d.function(specs, last)
    spec = f"({', '.join(axes)},)"
    out = d.choice("0", "0", "1", "-1")
    return f"jax.vmap({fn}, in_axes={spec}, out_axes={out})({', '.join(names)})"


@step(0.7)
def vmap_nested(d: Draw) -> str:
    x = d.any(rank=(2, 5))
    first = d.axis(x, negative=False)
    inner = without(d.pool[x], first)
    second = d.integer(0, inner.rank - 1)
    fn = d.function([without(inner, second)], last)
    outs = d.choice((0, 0), (1, 0), (0, -1), (-1, 1))
    return (
        f"jax.vmap(jax.vmap({fn}, in_axes={second}, out_axes={outs[1]}), "
        f"in_axes={first}, out_axes={outs[0]})({x})"
    )


@step(0.7)
def jit(d: Draw) -> str:
    x = d.any()
    fn = d.function([d.pool[x]], last)
    return f"jax.jit({fn})({x})"


@step(1.5)
def grad(d: Draw) -> str:
    x = d.floating()
    fn = d.function([d.pool[x]], loss)
    inner = f"jax.checkpoint({fn})" if d.chance(0.2) else fn
    return f"jax.grad({inner})({x})"


@step(0.5)
def value_and_grad(d: Draw) -> str:
    x = d.floating()
    return f"jax.value_and_grad({d.function([d.pool[x]], loss)})({x})"


@step(0.7)
def jvp(d: Draw) -> str:
    x = d.floating()
    fn = d.function([d.pool[x]], last)
    return f"jax.jvp({fn}, ({x},), ({d.like(x)},))"


@step(0.5)
def vjp(d: Draw) -> str:
    x = d.floating()
    fn = d.function([d.pool[x]], loss)
    return f"jax.vjp({fn}, {x})[1](jnp.ones_like(jax.eval_shape({fn}, {x})))[0]"


@step(0.3)
def jacobian(d: Draw) -> str:
    x = d.floating(0, 1)
    fn = d.function([d.pool[x]], last)
    return f"jax.{d.choice('jacfwd', 'jacrev')}({fn})({x})"


@step(0.3)
def checkpoint(d: Draw) -> str:
    x = d.floating()
    return f"jax.checkpoint({d.function([d.pool[x]], last)})({x})"


@step(0.2)
def vectorize(d: Draw) -> str:
    x = d.floating(1)
    fn = d.function([Spec(d.pool[x].shape[-1:], d.pool[x].dtype)], last)
    return f"jax.vmap({fn})({x}.reshape(-1, {x}.shape[-1]))"


@step(0.2)
def custom_jvp(d: Draw) -> str:
    x = d.floating()
    return f"jax.numpy.vectorize(lambda t: jnp.sin(t) * t)({x})"
