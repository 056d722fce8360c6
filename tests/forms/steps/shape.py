"""Steps that change shapes: reshape, transpose, split, concatenate, pad, repeat."""

import math

from tests.forms.draw import Draw, Unfit
from tests.forms.steps.registry import OF_A_VALUE, lines, step, tuple_of

OF_A_VALUE |= {
    "order": lambda d, x: tuple(d.sample(range(d.pool[x].rank), d.pool[x].rank)),
    "widths": tuple_of(lambda d, n: (d.integer(0, 2), d.integer(0, 2))),
    "config": tuple_of(lambda d, n: (d.integer(-1, 2), d.integer(-1, 2), d.choice(0, 0, 0, 1, 2))),
    "front": lambda d, x: "".join(
        f"{x}.shape[{i}], " for i in range(d.integer(0, d.pool[x].rank - 1))
    ),
}
lines("""
# JAX computes the last size, which may be symbolic.
1.5 reshape_rest {x:*1+}.reshape({front x}-1)
5 transpose jnp.transpose({x:*2+}, {order x})
1.5 pad jnp.pad({x:*1+}, {widths x}, mode='{constant|constant|edge|reflect|symmetric|wrap}')
# Padding may be negative or between elements.
1 lax_pad lax.pad({x:*1+}, jnp.asarray({0|1|2}, {x}.dtype), {config x})
1.5 stack jnp.stack([{x:*0-4}{|, {like x}|, {like x}, {like x}}], axis={-1|0|{axis x}})
0.4 unstack jnp.unstack({x:*1+!&}, axis={axis x})
1 move_axis jnp.{moveaxis|swapaxes}({x:*2+}, {axis x}, {axis x})
1 transposed {x:*1+}.T
0.7 squeeze jnp.squeeze({x:*})
1 flip jnp.flip({x:*1+}, {{axis x}|{axes x}})
1 roll jnp.roll({x:*1+}, {-3..4}, axis={axis x})
1 tile jnp.tile({x:*1-4}, ({1..2},{|{1..2},|{1..2}, {1..2}}))
1 repeat jnp.repeat({x:*1+}, {0..3}, axis={axis x})
0.5 triangle jnp.{tril|triu}({x:*2+}, {-1..1})
0.4 diagonal jnp.{diag|diagonal}({x:fiu1-2})
0.2 iota lax.broadcasted_iota('{int32|float32}', {({0..6},), 0|({1..6}, {0..6}), 1})
0.2 arange jnp.arange({x:*1+}.shape[{axis x}])
0.4 linspace jnp.{linspace(-1.0, 2.0, 5)|eye(3, 4)|arange(0.5, 4.0)}
0.3 rot90 jnp.rot90({x:*2+}, {1..3})
0.3 size_as_number {x:f1+} / {x}.shape[{axis x}]
0.3 meshgrid jnp.meshgrid({x:fi1}, {y:fi1}, indexing='{ij|xy}')
""")


def factors(d: Draw, size: int) -> list[int]:
    """Draw sizes with this product."""
    if size == 0:
        return [d.integer(0, 3), 0][:: d.choice(1, -1)]
    parts: list[int] = []
    while size > 1 and len(parts) < 3:
        part = d.pick([n for n in range(1, size + 1) if size % n == 0])
        parts.append(part)
        size //= part
    return [*parts, size] if size > 1 or not parts else parts


@step(5)
def reshape(d: Draw) -> str:
    x = d.any(static=True)
    shape = d.shape(x)
    parts: list[int] = []
    for size in shape:  # split some axes, and merge some neighbours
        first, *rest = factors(d, size) if d.chance(0.5) else [size]
        merged = parts.pop() if parts and d.chance(0.35) else 1
        parts += [first * merged, *rest]
    if d.chance(0.2):
        parts = factors(d, math.prod(shape))
    return f"{x}.reshape({tuple(parts)})"


@step(1)
def expand(d: Draw) -> str:
    x = d.any(rank=(0, 4))
    index = ["None" if d.chance(0.4) else ":" for _ in range(d.pool[x].rank + 1)]
    index += [":"] * (d.pool[x].rank - index.count(":"))
    if d.chance(0.6):
        return f"{x}[{', '.join(index)}]"
    return f"jnp.expand_dims({x}, {d.choice(0, -1)})"


@step(1)
def broadcast(d: Draw) -> str:
    x = d.any(static=True)
    grown = [d.size() if n == 1 else n for n in d.shape(x)]
    return f"jnp.broadcast_to({x}, {(*d.sizes(0, 2), *grown)})"


@step(0.5)
def broadcast_in_dim(d: Draw) -> str:
    x = d.any(rank=(0, 3), static=True)
    dimensions, out = (), ()
    for n in d.shape(x):
        out = (*out, *d.sizes(0, 1), n)
        dimensions = (*dimensions, len(out) - 1)
    return f"lax.broadcast_in_dim({x}, {out}, {dimensions})"


@step(2)
def concatenate(d: Draw) -> str:
    x = d.any(rank=(1, 9))
    spec = d.pool[x]
    axis = d.axis(x, negative=False)
    before, after = spec.shape[:axis], spec.shape[axis + 1 :]
    required = (spec.dtype, spec.rank, before, after)
    candidates = [
        n
        for n, s in d.pool.items()
        if (s.dtype, s.rank, s.shape[:axis], s.shape[axis + 1 :]) == required
    ]
    if d.chance(0.3):
        candidates.append(d.of((*before, d.size(), *after), spec.dtype))
    chosen = [d.pick(candidates) for _ in range(d.integer(1, 3))] + [x]
    chosen = d.sample(chosen, len(chosen))
    return f"jnp.concatenate([{', '.join(chosen)}], axis={axis})"


@step(2)
def split(d: Draw) -> str:
    x = d.any(rank=(1, 9), static=True)
    axis = d.axis(x)
    size = d.shape(x)[axis]
    if d.chance(0.5):
        parts = d.pick([n for n in range(2, max(size, 2) + 1) if size % n == 0] or [0])
        if not parts:
            raise Unfit
        return f"jnp.split({x}, {parts}, axis={axis})"
    points = sorted(d.integer(0, size) for _ in range(d.integer(1, 2)))
    return f"jnp.split({x}, {points}, axis={axis})"


@step(0.5)
def space_to_depth(d: Draw) -> str:
    """Unroll patches of two by two as vision networks do."""
    x = d.any(rank=(2, 3), static=True)
    rows, columns, *rest = d.shape(x)
    if rows % 2 or columns % 2 or not rows * columns:
        raise Unfit
    other_sizes = "".join(f", {n}" for n in rest)
    last = ", 4" if rest else ""
    return (
        f"{x}.reshape({rows // 2}, 2, {columns // 2}, 2{other_sizes})"
        f".transpose(0, 2, 1, 3{last}).reshape({rows // 2}, {columns // 2}, -1)"
    )
