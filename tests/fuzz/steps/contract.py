"""Contractions: einsum with any labels, matrix products, dot_general."""

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.program import Shape
from tests.fuzz.steps.registry import lines, step

LETTERS = "abcdefgh"

lines(outer=(0.5, "jnp.{outer|kron|convolve|correlate|inner}({x:f1}, {y:f1})"))


@step(4)
def einsum(d: Draw) -> str:
    x = d.any("fi", (1, 4))
    letters = list(LETTERS)
    d.rng.shuffle(letters)
    sizes: dict[str, object] = {}
    first = ""
    for size in d.pool[x].shape:
        same = [k for k, v in sizes.items() if v == size]
        label = d.rng.choice(same) if same and d.chance(0.07) else letters.pop()
        sizes[label] = size
        first += label
    labels, names = [first], [x]
    for _ in range(d.integer(0, 2) if d.chance(0.5) else 1):
        known = list(sizes)
        chosen = d.rng.sample(known, d.integer(0, min(3, len(known))))
        if d.chance(0.6):
            letter = letters.pop()
            sizes[letter] = d.size()
            chosen.append(letter)
        d.rng.shuffle(chosen)
        shape: Shape = tuple(sizes[c] for c in chosen)  # type: ignore[misc]
        names.append(d.of(shape, d.pool[x].dtype))
        labels.append("".join(chosen))
    order = list(range(len(names)))
    d.rng.shuffle(order)
    out = [c for c in sizes if d.chance(0.6)]
    d.rng.shuffle(out)
    spec = ",".join(labels[i] for i in order) + "->" + "".join(out)
    return f"jnp.einsum({spec!r}, {', '.join(names[i] for i in order)})"


@step(3)
def matmul(d: Draw) -> str:
    x = d.any("fiub", (1, 4))
    *batch, inner = d.pool[x].shape
    lead = tuple(batch[:-1]) if d.chance(0.5) else ()
    y = d.of((*lead, inner, d.size()) if d.chance(0.7) else (inner,), d.pool[x].dtype)
    return f"{x} @ {y}" if d.chance(0.7) else f"jnp.dot({x}, {y})"


@step(1)
def matmul_right(d: Draw) -> str:
    x = d.any("f", (2, 4))
    return f"{d.of((d.size(), d.pool[x].shape[-2]), d.pool[x].dtype)} @ {x}"


@step(2)
def dot_general(d: Draw) -> str:
    x = d.any("fi", (1, 4))
    shape = d.pool[x].shape
    axes = d.rng.sample(range(len(shape)), d.integer(0, len(shape)))
    cut = d.integer(0, len(axes))
    batch, contract = axes[:cut], axes[cut:]
    free: list[int | str | None] = [None] * d.integer(0, 2)
    places: list[int | None] = [*batch, *contract, *free]  # type: ignore[list-item]
    d.rng.shuffle(places)
    other: Shape = tuple(d.size() if p is None else shape[p] for p in places)
    y = d.of(other, d.pool[x].dtype)
    numbers = (
        (tuple(contract), tuple(places.index(p) for p in contract)),
        (tuple(batch), tuple(places.index(p) for p in batch)),
    )
    more = d.choice("", "", ", preferred_element_type=jnp.float32")
    return f"lax.dot_general({x}, {y}, {numbers}{more})"


@step(0.7)
def tensordot(d: Draw) -> str:
    x = d.any("f", (2, 4))
    axis = d.axis(x, negative=False)
    y = d.of((d.size(), d.pool[x].shape[axis]), d.pool[x].dtype)
    return f"jnp.tensordot({x}, {y}, axes=(({axis},), (1,)))"


@step(1.5)
def linear(d: Draw) -> str:
    x = d.any("f", (1, 4))
    dtype, size, outs = d.pool[x].dtype, d.pool[x].shape[-1], d.size()
    return f"{x} @ {d.of((outs, size), dtype)}.T + {d.of((outs,), dtype)}"


@step(0.4)
def weighted(d: Draw) -> str:
    """Three vectors in one contraction."""
    x = d.any("f", (2, 2))
    rows, columns = d.pool[x].shape
    dtype = d.pool[x].dtype
    first, last, out = d.of((columns,), dtype), d.of((rows,), dtype), d.choice("", "a", "b", "ab")
    return f"jnp.einsum('a,ba,b->{out}', {first}, {x}, {last})"


@step(0.3)
def cross(d: Draw) -> str:
    x = d.any("f", (1, 2), static=True)
    if d.shape(x)[-1] != 3:
        raise Unfit
    return f"jnp.cross({x}, {d.like(x)})"
