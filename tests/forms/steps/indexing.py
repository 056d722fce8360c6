"""Steps with slices, gathers and scatters."""

from tests.forms.draw import Draw, Unfit
from tests.forms.steps.registry import OF_A_VALUE, lines, step, tuple_of

WRITE_MODES = ("drop", "clip", "fill")
WRITES = ("set", "add", "multiply", "min", "max", "subtract", "divide")


def part(d: Draw, size: object) -> str:
    """Return a static index of an axis of this size."""
    if not isinstance(size, int) or size == 0:
        return ":"
    if d.chance(0.25):
        return str(d.integer(-size, size - 1))
    if d.chance(0.25):
        return ":"
    low, high = d.integer(0, size), d.integer(0, size)
    stride = d.choice("", "", ":2", ":-1", ":-2", ":3")
    if stride.startswith(":-"):
        return f"{d.choice('', max(low, high))}:{d.choice('', min(low, high) or '')}{stride}"
    return f"{min(low, high)}:{max(low, high)}{stride}"


def static_index(d: Draw, x: str) -> str:
    """Return a static index of one or more axes of a value."""
    shape = d.pool[x].shape
    parts = [part(d, size) for size in shape[: d.integer(1, len(shape))]]
    if d.chance(0.15) and len(parts) < len(shape):
        parts = ["...", *(part(d, size) for size in shape[-1:])]
    return ", ".join(parts)


def dynamic_index(d: Draw, x: str, *, inside: bool = False) -> str:
    """Return an index with arrays and scalars, mixed with slices. With ``inside`` all indices are
    in range, as plain indexing promises."""
    shape = d.pool[x].shape
    common = d.sizes(0, 2)
    parts = []
    for axis, size in enumerate(shape[: d.integer(1, len(shape))]):
        if d.chance(0.6) or not parts:
            index_shape = d.choice(common, common, (), tuple(1 for _ in common))
            dtype = d.choice("int32", "int32", "int32", "uint8", "int8")
            index = d.indices(index_shape, size, dtype)
            parts.append(_within(index, size, f"{x}.shape[{axis}]") if inside else index)
        else:
            parts.append(d.choice(":", part(d, size), ":"))
    return ", ".join(parts)


def _within(index: str, size: object, size_expression: str) -> str:
    """Return an index that is in range, whatever the size becomes while a program is shrunk."""
    if not isinstance(size, int) or size == 0:
        raise Unfit
    low = f"-{size_expression}" if index.startswith("jnp.array(") else "0"
    return f"jnp.clip({index}, {low}, {size_expression} - 1)"


OF_A_VALUE |= {
    "static": static_index,
    "dynamic": dynamic_index,
    "inside": lambda d, x: dynamic_index(d, x, inside=True),
    "starts": tuple_of(lambda d, n: d.indices((), n)),
    "sizes": tuple_of(lambda d, n: d.integer(0, n)),
    "one": lambda d, x, axis: d.indices((), d.pool[x].shape[int(axis)]),
    "several": lambda d, x, axis: d.indices(d.sizes(0, 2), d.pool[x].shape[int(axis)]),
}
lines("""
0.7 take_sorted jnp.take_along_axis({x:fiu1+}, jnp.argsort({x}, axis={a=place x}), axis={a})
0.4 nonzero jnp.nonzero({x:fib1-2!}, size={1..4}, fill_value=0)[0]
0.3 delete jnp.{delete({x:*1+}, 0{|, axis=0})|insert({x}, 0, 1, axis=0)}
4 slice {x:*1+}[{static x}]
2 gather {x:*1+}[{inside x}]
2 gather_outside {x:*1+}.at[{dynamic x}].get(mode={'clip'|'fill'|'fill', fill_value=7})
0.5 scatter_apply {x:f1+}.at[{static x}].apply(jnp.sin)
2 take {a=axis x} => jnp.take({x:*1+}, {several x a}, axis={a}, mode={None|'clip'|'wrap'|'fill'})
1.5 dynamic_slice lax.dynamic_slice({x:*1+!}, {starts x}, {sizes x})
1 dynamic_index_in_dim {a=place x} => lax.dynamic_index_in_dim({x:*1+}, {one x a}, {a},
    keepdims={True|False})
0.5 slice_in_dim lax.slice_in_dim({x:*1+!}, {0..2}, {2..4}, axis={place x})
""")


@step(5)
def scatter(d: Draw) -> str:
    x = d.any("fiub", rank=(1, 9))
    index = static_index(d, x) if d.chance(0.35) else dynamic_index(d, x)
    name = d.choice(*WRITES)
    spec = d.pool[x]
    if spec.kind != "f" and name == "divide":
        raise Unfit
    mode = d.choice("", "", f", mode={d.choice(*WRITE_MODES)!r}")
    target = f"{x}.at[{index}]"
    if d.chance(0.5):
        value = d.number() if spec.kind == "f" else "True" if spec.kind == "b" else "3"
        return f"{target}.{name}({value}{mode})"
    selected = d.typed(f"{target}.get(mode='clip')" if "[" in index else f"{x}[{index}]")[1][0]
    return f"{target}.{name}({d.of(selected.shape, spec.dtype)}{mode})"


@step(1)
def take_along_axis(d: Draw) -> str:
    x = d.any(rank=(1, 9), static=True)
    axis = d.axis(x, negative=False)
    shape = list(d.shape(x))
    shape[axis] = d.size()
    return f"jnp.take_along_axis({x}, {d.indices(tuple(shape), d.shape(x)[axis])}, axis={axis})"


@step(1.5)
def dynamic_update_slice(d: Draw) -> str:
    x = d.any(rank=(1, 9), static=True)
    starts = OF_A_VALUE["starts"](d, x)
    sizes = tuple(d.integer(0, size) for size in d.shape(x))
    return f"lax.dynamic_update_slice({x}, {d.of(sizes, d.pool[x].dtype)}, {starts})"


@step(0.7)
def lax_slice(d: Draw) -> str:
    x = d.any(rank=(1, 9), static=True)
    starts = tuple(d.integer(0, n) for n in d.shape(x))
    limits = tuple(d.integer(s, n) for s, n in zip(starts, d.shape(x), strict=True))
    strides = tuple(d.integer(1, 3) for _ in starts)
    return f"lax.slice({x}, {starts}, {limits}, {strides})"


@step(0.4)
def masked(d: Draw) -> str:
    x = d.any("fiu", rank=(1, 9), static=True)
    mask = f"np.arange({d.shape(x)[0]}) % 2 == {d.choice('0', '1')}"  # JAX requires a constant mask
    return f"{x}.at[{mask}].set({d.choice('0', '1')})"
