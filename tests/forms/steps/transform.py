"""Steps with JAX's transformations of functions."""

from tests.forms.draw import Draw
from tests.forms.program import Spec
from tests.forms.steps.registry import OF_A_VALUE, last, lines, step


def without(spec: Spec, axis: int) -> Spec:
    """Return a type without one of its axes."""
    return Spec(spec.shape[:axis] + spec.shape[axis + 1 :], spec.dtype)


OF_A_VALUE["tails"] = lambda d, x: d.function([Spec(d.pool[x].shape[-1:], d.pool[x].dtype)], last)
lines("""
0.7 jit jax.jit({last x})({x:*})
1.5 grad jax.grad({|||jax.checkpoint}({loss x}))({x:f})
0.5 value_and_grad jax.value_and_grad({loss x})({x:f})
0.7 jvp jax.jvp({last x}, ({x:f},), ({like x},))
0.5 vjp jax.vjp({g=loss x}, {x:f})[1](jnp.ones_like(jax.eval_shape({g}, {x})))[0]
0.3 jacobian jax.{jacfwd|jacrev}({last x})({x:f0-1})
0.3 checkpoint jax.checkpoint({last x})({x:f})
0.2 vectorize jax.vmap({tails x})({x:f1+}.reshape(-1, {x}.shape[-1]))
0.2 custom_jvp jax.numpy.vectorize(lambda t: jnp.sin(t) * t)({x:f})
""")


@step(3)
def vmap(d: Draw) -> str:
    """Map a function over any axes of one or two operands."""
    x = d.any(rank=(1, 4))
    axis = d.axis(x, negative=False)
    size = d.pool[x].shape[axis]
    names, axes, specs = [x], [str(axis)], [without(d.pool[x], axis)]
    if d.chance(0.5):
        fits = [(n, i) for n, s in d.pool.items() for i, k in enumerate(s.shape) if k == size]
        y, axis_of_y = d.pick(fits)
        is_unmapped = d.chance(0.4)
        names.append(y)
        axes.append("None" if is_unmapped else str(axis_of_y))
        specs.append(d.pool[y] if is_unmapped else without(d.pool[y], axis_of_y))
    fn = d.function(specs, last)
    out = d.choice("0", "0", "1", "-1")
    return f"jax.vmap({fn}, in_axes=({', '.join(axes)},), out_axes={out})({', '.join(names)})"


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
