"""Steps with contractions: einsum with any labels, matrix products, dot_general."""

from typing import Any

from tests.forms.draw import Draw
from tests.forms.steps.registry import OF_A_VALUE, lines, step

OF_A_VALUE["columns"] = lambda d, x, rows, axis: d.of(
    (int(rows), d.pool[x].shape[int(axis)]), d.pool[x].dtype
)
lines("""
PRODUCT = {{x} @ {y}|{x} @ {y}|jnp.dot({x}, {y})}
0.5 outer jnp.{outer|kron|convolve|correlate|inner}({x:f1}, {y:f1})
0.5 cross jnp.cross({x:f1-2!}, {like x})
1 matmul {x:*1-4} {n=size} {y=shaped x -1 n} => {PRODUCT}
1 matmul_batched {x:*2-4} {n=size} {y=shaped x *2 -1 n} => {PRODUCT}
1 matmul_vector {x:*1-4} {y=shaped x -1} => {PRODUCT}
1 matmul_right {x:f2-4} {n=size} => {shaped x n -2} @ {x}
0.7 tensordot {x:f2-4} {n=size} {a=place x} =>
    jnp.tensordot({x}, {columns x n a}, axes=(({a},), (1,)))
1.5 linear {x:f1-4} {n=size} => {x} @ {shaped x n -1}.T + {shaped x n}
# Three vectors in one contraction.
0.4 weighted jnp.einsum('a,ba,b->{|a|b|ab}', {shaped x -1}, {x:f2}, {shaped x -2})
""")


@step(4)
def einsum(d: Draw) -> str:
    x = d.any("fi", (1, 4))
    letters = list("abcdefgh")
    letters = d.sample(letters, len(letters))
    sizes: dict[str, Any] = {}
    labels_of_x = ""
    for size in d.pool[x].shape:
        same = [k for k, v in sizes.items() if v == size]
        label = d.pick(same) if same and d.chance(0.07) else letters.pop()
        sizes[label] = size
        labels_of_x += label
    operands = [(labels_of_x, x)]
    for _ in range(d.integer(0, 2) if d.chance(0.5) else 1):
        labels_so_far = list(sizes)
        chosen = d.sample(labels_so_far, d.integer(0, min(3, len(labels_so_far))))
        if d.chance(0.6):
            chosen.append(letters.pop())
            sizes[chosen[-1]] = d.size()
        chosen = d.sample(chosen, len(chosen))
        name = d.of(tuple(sizes[c] for c in chosen), d.pool[x].dtype)
        operands.append(("".join(chosen), name))
    operands = d.sample(operands, len(operands))
    out = [c for c in sizes if d.chance(0.6)]
    out = d.sample(out, len(out))
    labels, names = zip(*operands, strict=True)
    return f"jnp.einsum({','.join(labels) + '->' + ''.join(out)!r}, {', '.join(names)})"


@step(2)
def dot_general(d: Draw) -> str:
    x = d.any("fi", (1, 4))
    shape = d.pool[x].shape
    axes = d.sample(range(len(shape)), d.integer(0, len(shape)))
    cut = d.integer(0, len(axes))
    axes_of_y: list[int | None] = [*axes, *[None] * d.integer(0, 2)]
    axes_of_y = d.sample(axes_of_y, len(axes_of_y))
    y = d.of(tuple(d.size() if p is None else shape[p] for p in axes_of_y), d.pool[x].dtype)
    parts = (axes[cut:], axes[:cut])  # contracted axes, and batch axes
    numbers = tuple((tuple(part), tuple(map(axes_of_y.index, part))) for part in parts)
    options = d.choice("", "", ", preferred_element_type=jnp.float32")
    return f"lax.dot_general({x}, {y}, {numbers}{options})"
