"""Layout: reshape, transpose, split, concatenate, pad, repeat."""

import math

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.steps.registry import step


def factors(d: Draw, size: int) -> list[int]:
    """Sizes with this product."""
    if size == 0:
        return [d.integer(0, 3), 0][:: d.choice(1, -1)]
    found: list[int] = []
    while size > 1 and len(found) < 3:
        part = d.rng.choice([n for n in range(1, size + 1) if size % n == 0])
        found.append(part)
        size //= part
    return [*found, size] if size > 1 or not found else found


@step(5)
def reshape(d: Draw) -> str:
    x = d.any(static=True)
    shape = d.shape(x)
    parts: list[int] = []
    for size in shape:  # splits some axes, merges neighbours
        split = factors(d, size) if d.chance(0.5) else [size]
        if parts and d.chance(0.35):
            split[0] *= parts.pop()
        parts.extend(split)
    if d.chance(0.2):
        parts = factors(d, math.prod(shape))
    return f"{x}.reshape({tuple(parts)})"


@step(1.5)
def reshape_rest(d: Draw) -> str:
    """Sizes that are left to JAX, symbolic ones among them."""
    x = d.any(rank=(1, 9))
    kept = d.integer(0, d.pool[x].rank - 1)
    dims = ", ".join(f"{x}.shape[{i}]" for i in range(kept))
    return f"{x}.reshape({dims}{', ' if dims else ''}-1)"


@step(5)
def transpose(d: Draw) -> str:
    x = d.any(rank=(2, 9))
    order = list(range(d.pool[x].rank))
    d.rng.shuffle(order)
    return f"jnp.transpose({x}, {tuple(order)})"


@step(1)
def move_axis(d: Draw) -> str:
    x = d.any(rank=(2, 9))
    name = d.choice("moveaxis", "swapaxes")
    return f"jnp.{name}({x}, {d.axis(x)}, {d.axis(x)})"


@step(1)
def transposed(d: Draw) -> str:
    return f"{d.any(rank=(1, 9))}.T"


@step(1)
def expand(d: Draw) -> str:
    x = d.any(rank=(0, 4))
    index = ["None" if d.chance(0.4) else ":" for _ in range(d.pool[x].rank + 1)]
    dims = d.pool[x].rank - index.count(":")
    index += [":"] * dims
    return (
        f"{x}[{', '.join(index)}]" if d.chance(0.6) else f"jnp.expand_dims({x}, {d.choice(0, -1)})"
    )


@step(0.7)
def squeeze(d: Draw) -> str:
    return f"jnp.squeeze({d.any()})"


@step(1)
def broadcast(d: Draw) -> str:
    x = d.any(static=True)
    grown = [d.size() if n == 1 else n for n in d.shape(x)]
    return f"jnp.broadcast_to({x}, {(*d.sizes(0, 2), *grown)})"


@step(0.5)
def broadcast_in_dim(d: Draw) -> str:
    x = d.any(rank=(0, 3), static=True)
    places: list[int] = []
    out: list[int] = []
    for n in d.shape(x):
        out += d.sizes(0, 1)
        places.append(len(out))
        out.append(n)
    return f"lax.broadcast_in_dim({x}, {tuple(out)}, {tuple(places)})"


@step(2)
def concatenate(d: Draw) -> str:
    x = d.any(rank=(1, 9))
    spec = d.pool[x]
    axis = d.axis(x, negative=False)
    others = [
        n
        for n, s in d.pool.items()
        if s.dtype == spec.dtype
        and s.rank == spec.rank
        and s.shape[:axis] + s.shape[axis + 1 :] == spec.shape[:axis] + spec.shape[axis + 1 :]
    ]
    if d.chance(0.3):
        others.append(d.of((*spec.shape[:axis], d.size(), *spec.shape[axis + 1 :]), spec.dtype))
    chosen = [d.rng.choice(others) for _ in range(d.integer(1, 3))] + [x]
    d.rng.shuffle(chosen)
    return f"jnp.concatenate([{', '.join(chosen)}], axis={axis})"


@step(1.5)
def stack(d: Draw) -> str:
    x = d.any(rank=(0, 4))
    chosen = [x, *(d.like(x) for _ in range(d.integer(0, 2)))]
    return f"jnp.stack([{', '.join(chosen)}], axis={d.integer(-1, d.pool[x].rank)})"


@step(2)
def split(d: Draw) -> str:
    x = d.any(rank=(1, 9), static=True)
    axis = d.axis(x)
    size = d.shape(x)[axis]
    if d.chance(0.5):
        parts = d.rng.choice([n for n in range(2, max(size, 2) + 1) if size % n == 0] or [0])
        if not parts:
            raise Unfit
        return f"jnp.split({x}, {parts}, axis={axis})"
    points = sorted(d.integer(0, size) for _ in range(d.integer(1, 2)))
    return f"jnp.split({x}, {points}, axis={axis})"


@step(0.4)
def unstack(d: Draw) -> str:
    x = d.any(rank=(1, 9), static=True)
    axis = d.axis(x)
    if not 2 <= d.shape(x)[axis] <= 5:
        raise Unfit
    return f"jnp.unstack({x}, axis={axis})"


@step(1)
def flip(d: Draw) -> str:
    x = d.any(rank=(1, 9))
    return f"jnp.flip({x}, {d.choice(d.axis(x), d.axes(x))})"


@step(1)
def roll(d: Draw) -> str:
    x = d.any(rank=(1, 9))
    return f"jnp.roll({x}, {d.integer(-3, 4)}, axis={d.axis(x)})"


@step(1.5)
def pad(d: Draw) -> str:
    x = d.any(rank=(1, 9))
    widths = tuple((d.integer(0, 2), d.integer(0, 2)) for _ in range(d.pool[x].rank))
    mode = d.choice("constant", "constant", "edge", "reflect", "symmetric", "wrap")
    return f"jnp.pad({x}, {widths}, mode={mode!r})"


@step(1)
def lax_pad(d: Draw) -> str:
    """Negative and interior padding too."""
    x = d.any(rank=(1, 9))
    config = tuple(
        (d.integer(-1, 2), d.integer(-1, 2), d.integer(0, 2) if d.chance(0.3) else 0)
        for _ in range(d.pool[x].rank)
    )
    filler = f"jnp.asarray({d.choice('0', '1', '2')}, {x}.dtype)"
    return f"lax.pad({x}, {filler}, {config})"


@step(1)
def tile(d: Draw) -> str:
    x = d.any(rank=(1, 4))
    return f"jnp.tile({x}, {tuple(d.integer(1, 2) for _ in range(d.integer(1, 3)))})"


@step(1)
def repeat(d: Draw) -> str:
    x = d.any(rank=(1, 9))
    return f"jnp.repeat({x}, {d.integer(0, 3)}, axis={d.axis(x)})"


@step(0.5)
def triangle(d: Draw) -> str:
    x = d.any(rank=(2, 9))
    return f"jnp.{d.choice('tril', 'triu')}({x}, {d.integer(-1, 1)})"


@step(0.4)
def diagonal(d: Draw) -> str:
    x = d.any("fiu", (1, 2))
    return f"jnp.{d.choice('diag', 'diagonal' if d.pool[x].rank > 1 else 'diag')}({x})"


@step(0.4)
def iota(d: Draw) -> str:
    if d.chance(0.5):
        shape = d.sizes(1, 3)
        return f"lax.broadcasted_iota('{d.choice('int32', 'float32')}', {shape}, {len(shape) - 1})"
    x = d.any(rank=(1, 9))
    return f"jnp.arange({x}.shape[{d.axis(x)}])"


@step(0.4)
def linspace(d: Draw) -> str:
    return d.choice("jnp.linspace(-1.0, 2.0, 5)", "jnp.eye(3, 4)", "jnp.arange(0.5, 4.0)")


@step(0.5)
def space_to_depth(d: Draw) -> str:
    """As vision networks unroll their patches."""
    x = d.any(rank=(2, 3), static=True)
    rows, columns, *rest = d.shape(x)
    if rows % 2 or columns % 2 or not rows * columns:
        raise Unfit
    kept = "".join(f", {n}" for n in rest)
    last = ", 4" if rest else ""
    return (
        f"{x}.reshape({rows // 2}, 2, {columns // 2}, 2{kept})"
        f".transpose(0, 2, 1, 3{last}).reshape({rows // 2}, {columns // 2}, -1)"
    )


@step(0.3)
def rot90(d: Draw) -> str:
    return f"jnp.rot90({d.any(rank=(2, 9))}, {d.integer(1, 3)})"


@step(0.3)
def size_as_number(d: Draw) -> str:
    x = d.any("f", rank=(1, 9))
    return f"{x} / {x}.shape[{d.axis(x)}]"


@step(0.3)
def meshgrid(d: Draw) -> str:
    x, y = d.any("fi", (1, 1)), d.any("fi", (1, 1))
    return f"jnp.meshgrid({x}, {y}, indexing={d.choice('ij', 'xy')!r})"
