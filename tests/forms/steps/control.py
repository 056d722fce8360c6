"""Steps with control flow."""

from tests.forms.draw import Draw, Unfit
from tests.forms.program import Spec
from tests.forms.steps.registry import OF_A_VALUE, last, lines, step


def returned(d: Draw, spec: Spec) -> str:
    """Return an expression of this type for the result of a function."""
    fits = [n for n, s in d.pool.items() if s == spec and n[0] != "x"]
    results = [n for n in fits if n.startswith("v")]
    if results or fits:
        return d.pick(results[-2:] or fits)
    results = [
        n for n, s in d.pool.items() if n.startswith("v") and s.kind == spec.kind and s.is_static
    ]
    if not results or spec.kind == "b":
        raise Unfit
    return f"jnp.broadcast_to(jnp.sum({d.pick(results)}), {spec.shape}).astype({spec.dtype!r})"


def grown(d: Draw, spec: Spec) -> str:
    """Return an expression of this type for the result of a loop's step, with floats kept small."""
    base = returned(d, spec)
    if spec.kind != "f" or d.chance(0.3):
        return base
    return f"jnp.tanh({base})" if d.chance(0.5) else f"{base} * 0.5"


def looped(d: Draw, x: str, *before: Spec) -> str:
    """Return a function of a value, and of arguments before it, that returns a value of the same
    type."""
    spec = d.pool[x]
    return d.function([*before, spec], lambda b: grown(b, spec))


OF_A_VALUE |= {
    "looped": looped,
    "counted": lambda d, x: looped(d, x, Spec((), "int32")),
    "rows": lambda d, x: d.function([Spec(d.pool[x].shape[1:], d.pool[x].dtype)], last),
    "scalar": lambda d, dtype: d.of((), dtype),
}
lines("""
0.4 cond lax.cond(jnp.sum({y:fi}) > 0, {looped x}, {looped x}, {x:*})
0.4 cond_of_value lax.cond({scalar bool}, {looped x}, {looped x}, {x:*})
0.4 cond_of_size lax.cond({x:*1+}.shape[0] > 2, {looped x}, {looped x}, {x})
0.7 switch lax.switch({scalar int32}, [{looped x}, {looped x}{|, {looped x}}], {x:*})
0.4 scan_counted lax.scan(lambda c, _: ({looped x}(c), None), {x:fi0-3}, None, length={0..4})[0]
1 fori_loop lax.fori_loop({0|1}, {0..4}, {counted x}, {x:fi})
0.7 while_loop lax.while_loop(lambda s: (s[0] < {1..4}){| & (jnp.sum(s[1]) < 50)},
    lambda s: (s[0] + 1, {looped x}(s[1])), (0, {x:fi}))[1]
1 map lax.map({rows x}, {x:*1-4})
""")


@step(1.5)
def scan(d: Draw) -> str:
    xs = d.any(rank=(1, 4))
    spec = d.pool[xs]
    carry = d.any("fi", (0, 3))
    carry_spec = d.pool[carry]

    def finish(b: Draw) -> str:
        results = [n for n in b.pool if n.startswith("v")] or list(b.pool)
        return f"({grown(b, carry_spec)}, {b.pick(results)})"

    fn = d.function([carry_spec, Spec(spec.shape[1:], spec.dtype)], finish)
    options = d.choice("", ", reverse=True", ", unroll=2")
    return f"lax.scan({fn}, {carry}, {xs}{options})"
