"""Control flow."""

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.program import Spec
from tests.fuzz.steps.registry import last, step


def returned(d: Draw, spec: Spec) -> str:
    """What a function returns that has to give such a value."""
    fits = [n for n, s in d.pool.items() if s == spec and n[0] != "x"]
    made = [n for n in fits if n.startswith("v")]
    if made or fits:
        return d.rng.choice(made[-2:] or fits)
    made = [
        n for n, s in d.pool.items() if n.startswith("v") and s.kind == spec.kind and s.is_static
    ]
    if not made or spec.kind == "b":
        raise Unfit
    return f"jnp.broadcast_to(jnp.sum({d.rng.choice(made)}), {spec.shape}).astype({spec.dtype!r})"


def grown(d: Draw, spec: Spec) -> str:
    """The same, of something that came before."""
    base = returned(d, spec)
    if spec.kind != "f" or d.chance(0.3):
        return base
    return f"jnp.tanh({base})" if d.chance(0.5) else f"{base} * 0.5"


@step(1.2)
def cond(d: Draw) -> str:
    x = d.any()
    spec = d.pool[x]
    branches = [d.function([spec], lambda b: grown(b, spec)) for _ in range(2)]
    test = d.choice(
        f"jnp.sum({d.any('fi')}) > 0",
        d.of((), "bool"),
        f"{x}.shape[0] > 2" if spec.rank else "True",
    )
    return f"lax.cond({test}, {branches[0]}, {branches[1]}, {x})"


@step(0.7)
def switch(d: Draw) -> str:
    x = d.any()
    spec = d.pool[x]
    branches = [
        d.function([spec], lambda b: grown(b, spec), (0, 2)) for _ in range(d.integer(2, 3))
    ]
    return f"lax.switch({d.of((), 'int32')}, [{', '.join(branches)}], {x})"


@step(1.5)
def scan(d: Draw) -> str:
    xs = d.any(rank=(1, 4))
    spec = d.pool[xs]
    carry = d.any("fi", (0, 3))
    kept = d.pool[carry]

    def finish(b: Draw) -> str:
        made = [n for n in b.pool if n.startswith("v")] or list(b.pool)
        return f"({grown(b, kept)}, {b.rng.choice(made)})"

    fn = d.function([kept, Spec(spec.shape[1:], spec.dtype)], finish)
    more = d.choice("", ", reverse=True", ", unroll=2")
    return f"lax.scan({fn}, {carry}, {xs}{more})"


@step(0.4)
def scan_counted(d: Draw) -> str:
    carry = d.any("fi", (0, 3))
    kept = d.pool[carry]
    fn = d.function([kept], lambda b: f"({grown(b, kept)}, None)")
    return f"lax.scan(lambda c, _: {fn}(c), {carry}, None, length={d.integer(0, 4)})[0]"


@step(1)
def fori_loop(d: Draw) -> str:
    x = d.any("fi")
    spec = d.pool[x]
    fn = d.function([Spec((), "int32"), spec], lambda b: grown(b, spec))
    return f"lax.fori_loop({d.choice('0', '1')}, {d.integer(0, 4)}, {fn}, {x})"


@step(0.7)
def while_loop(d: Draw) -> str:
    x = d.any("fi")
    spec = d.pool[x]
    fn = d.function([spec], lambda b: grown(b, spec))
    limit = d.integer(1, 4)
    test = (
        f"lambda s: (s[0] < {limit}) & (jnp.sum(s[1]) < 50)"
        if d.chance(0.5)
        else f"lambda s: s[0] < {limit}"
    )
    return f"lax.while_loop({test}, lambda s: (s[0] + 1, {fn}(s[1])), (0, {x}))[1]"


@step(1)
def map(d: Draw) -> str:
    xs = d.any(rank=(1, 4))
    spec = d.pool[xs]
    fn = d.function([Spec(spec.shape[1:], spec.dtype)], last)
    return f"lax.map({fn}, {xs})"
