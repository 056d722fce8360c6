"""Attention, rotary embeddings and updates as networks outside of the zoo write them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.rules.programs import Drawn, Expr
from tests.rules.prove import Draw

PLAIN = (-1.5, 0.75, 2.5, -0.25, 1.125, 0.5, -2.0, 0.0)
ODD = (*PLAIN, -0.0, np.inf, -np.inf, np.nan)


def shifted(special: bool) -> Draw:
    """Return a draw of a softmax whose input has the maximum of one or more rows subtracted.

    Other operations stand before and behind the subtraction. With `special`, half of the inputs
    contain NaN and infinities.
    """

    def draw(d: Drawn) -> Expr:
        pool = ODD if special and d.chance() else PLAIN
        dtype, axis = d.pick(("float32", "bfloat16", "float16")), d.integer(0, 2)
        x, added = d.input((2, 3, 5), dtype, pool), d.input(d.pick([(3, 5), (1, 5)]), dtype, PLAIN)
        axes = d.pick([axis, axis, (axis,), tuple({axis, 2}), (0, 1, 2), None])
        form = d.pick(["max", "guard", "floor", "number", "twice"])
        visible, fill = (
            np.tri(3, 5, 1, dtype=bool),
            d.pick([-1e4, -np.inf, float(jnp.finfo(dtype).min)]),
        )
        before, after = (d.pick(["add", "mul", "fill", ""]) for _ in range(2))
        product = d.chance() and pool == PLAIN

        def changed(a: Any, operation: str, b: Any) -> Any:
            if operation == "fill":
                return jnp.where(visible, a, jnp.asarray(fill, a.dtype))
            return {"add": lambda: a + b, "mul": lambda: a * 0.5, "": lambda: a}[operation]()

        def run(a: Any, b: Any) -> Any:
            a = jnp.einsum("abc,cd->abd", a, 0.5 * np.eye(5, dtype=a.dtype)) if product else a
            a = changed(a, before, b)
            maximum = a.max(axes, keepdims=True)
            if form == "guard":
                maximum = jnp.where(jnp.isfinite(maximum), maximum, 0)
            maximum = jnp.maximum(maximum, -1e4) if form == "floor" else maximum
            difference = a - (jnp.asarray(1, a.dtype) if form == "number" else maximum)
            difference = (
                difference - difference.max(axis, keepdims=True) if form == "twice" else difference
            )
            return jax.nn.softmax(changed(difference, after, b), axis)

        return d.apply(run, x, added)

    return draw


def overwritten(d: Drawn) -> Expr:
    """Draw an array whose neighbouring parts or alternate elements are overwritten in turn."""
    shape, axis = [[2, 3, 4], d.integer(0, 2)] if d.chance() else [["n", 3, 4], d.integer(1, 2)]
    size = d.pick((5, 6, 8, 9))
    shape[axis] = size
    dtype = d.pick(("float32", "bfloat16", "int32", "bool"))
    x = d.pick((d.input, d.number))(tuple(shape), dtype)
    step = d.pick((1, 2, 2))
    starts = [d.integer(0, 3) for _ in range(d.integer(1, 4))]
    counts = [d.integer(1, 4) for _ in starts]
    if d.integer(0, 3):  # two updates that fill the array
        count = size // 2 - d.integer(0, 1)
        starts, counts = (
            list(d.pick([(0, 1), (1, 0)] if step == 2 else [(0, count), (count, 0)])),
            [count] * 2,
        )
    updates = []
    for count in counts:
        part = [*shape]
        part[axis] = count
        updates.append(d.input(tuple(part), dtype))

    def run(a: Any, *parts: Any) -> Any:
        for start, count, part in zip(starts, counts, parts, strict=True):
            stop = min(start + count * step, size)
            index = (*(slice(None),) * axis, slice(start, stop, step))
            length = len(range(start, stop, step))
            a = a.at[index].set(lax.slice_in_dim(part, 0, length, axis=axis))
        return a

    return d.apply(run, x, *updates)


def by_matrices(d: Drawn) -> Expr:
    """Draw pairs of elements multiplied by 2 x 2 matrices, most of which are rotations."""
    n, heads, half = d.integer(2, 5), d.integer(1, 3), d.integer(2, 4)
    x = d.input((2, n, heads, 2 * half), "float32", ODD if d.integer(0, 3) == 0 else PLAIN)
    source = d.pick(["numbers", "input", "parameter", "concatenated"])
    draw_angles = {"numbers": d.constant, "parameter": d.param}.get(source, d.input)
    angles = draw_angles((n, half), "float32", (0.0, 0.25, 1.0, 2.0, -3.0))
    signs = d.pick([(1, -1, 1, 1), (1, 1, -1, 1), (-1, -1, 1, -1), (1, -1, 1, -1), (1, 1, 1, 1)])
    form = d.pick(["columns", "einsum", "matmul", "row", "sum", "halves", "first"])
    order = d.order(3)

    def matrices(a: Any) -> Any:
        parts = jnp.split(a, [1], 1) if source == "concatenated" else [a]
        entries = [
            jnp.stack(
                [
                    s * f(p)
                    for s, f in zip(signs, (jnp.cos, jnp.sin, jnp.sin, jnp.cos), strict=True)
                ],
                -1,
            )
            for p in parts
        ]
        return jnp.concatenate(entries, 1).reshape(n, half, 2, 2)

    def run(a: Any, t: Any) -> Any:
        m, pairs = matrices(t), a.reshape(2, n, heads, half, 2)
        if form == "columns":
            y = m[:, None, ..., 0] * pairs[..., 0, None] + m[:, None, ..., 1] * pairs[..., 1, None]
        elif form == "halves":
            return jnp.einsum("ncij,bnhjc->bnhic", m, a.reshape(2, n, heads, 2, half)).reshape(
                a.shape
            )
        elif form == "first":
            rotated = jnp.einsum("ncij,bnhcj->ibnhc", m, pairs)
            return jnp.moveaxis(rotated, 0, -1).reshape(a.shape)
        elif form == "matmul":
            y = (m[:, None] @ pairs[..., None])[..., 0]
        elif form == "row":
            y = (pairs[..., None, :] @ m[:, None])[..., 0, :]
        elif form == "sum":
            y = jnp.sum(m[:, None] * pairs[..., None, :], -1)
        else:
            y = jnp.einsum("ncij,bnhcj->bnhci", m, pairs)
        return y.reshape(a.shape)

    def run_permuted(a: Any, t: Any) -> Any:
        """Apply `run` to an array whose batch, positions and heads are permuted."""
        y = run(jnp.transpose(a, (*np.argsort(order), 3)), t)
        return jnp.transpose(y, (*order, 3))

    sizes = (2, n, heads)
    x = d.apply(lambda a: jnp.transpose(a, (*order, 3)), x)
    assert x.shape == (*(sizes[i] for i in order), 2 * half)
    return d.apply(run_permuted, x, angles)


def neighbours_of_rest(d: Drawn) -> Expr:
    """Draw rotated halves among other parts of a concatenation along one of two axes."""
    n, half = d.integer(2, 4), d.integer(1, 3)
    sizes = [d.pick((1, half, 2 * half)) for _ in range(d.integer(1, 3))]
    positions = [d.integer(0, len(sizes)) for _ in range(d.integer(1, 2))]
    axis, width = d.pick((-1, 1)), sum(sizes) + 2 * half * len(positions)
    x = d.input((n, 2, width), "float32", PLAIN)
    angles = d.input((n, 1, half), "float32", (0.25, 1.0, -2.0))
    is_inverse = d.chance()

    def run(a: Any, t: Any) -> Any:
        parts, offset = [], 0
        cos, sin = jnp.cos(t), -jnp.sin(t) if is_inverse else jnp.sin(t)
        for i in range(len(sizes) + 1):
            for _ in range(positions.count(i)):
                first, second = (
                    a[..., offset + k * half : offset + (k + 1) * half] for k in (0, 1)
                )
                parts += [first * cos - second * sin, second * cos + first * sin]
                offset += 2 * half
            if i < len(sizes):
                parts.append(a[..., offset : offset + sizes[i]])
                offset += sizes[i]
        transposed_parts = [jnp.moveaxis(part, -1, axis) for part in parts]
        return jnp.concatenate(transposed_parts, axis)

    return d.apply(run, x, angles)


def regrouped(d: Drawn) -> Expr:
    """Draw attention with grouped queries, where two axes of the scores are merged for the softmax.

    Gemma merges heads and groups. Other networks merge groups and queries for the products.
    """
    sizes = {"b": 2, "t": d.integer(2, 5), "k": d.integer(2, 3), "g": d.integer(2, 3)}
    sizes |= {"s": d.pick((3, 7)), "c": 4}

    def shape(names: str) -> tuple[int, ...]:
        return tuple(sizes[name] for name in names)

    q, k, v = (d.input(shape(names), "float32", PLAIN) for names in ("btkgc", "bskc", "bskc"))
    axes = ["btkgs"[i] for i in d.order(5)]
    candidates = [i for i in range(4) if "s" not in axes[i : i + 2]]
    first_merged = d.pick(candidates)
    merged = [
        *axes[:first_merged],
        "".join(axes[first_merged : first_merged + 2]),
        *axes[first_merged + 2 :],
    ]
    last, mask_form = merged.index("s"), d.pick(["", "known", "bias", "after"])
    merged_shape = [
        sizes[name] if len(name) == 1 else sizes[name[0]] * sizes[name[1]] for name in merged
    ]
    mask_shape = [size if i == last or d.chance() else 1 for i, size in enumerate(merged_shape)]
    bias = d.input(tuple(mask_shape), "float32", PLAIN)
    visible = np.random.default_rng(d.integer(0, 9)).random(mask_shape) > 0.3

    def run(q: Any, k: Any, v: Any, bias: Any) -> Any:
        names = "".join(axes)
        scores = jnp.einsum(f"btkgc,bskc->{names}", q, k).reshape(merged_shape) / 2
        if mask_form in ("known", "after"):
            scores = jnp.where(visible, scores, -1e30)
        if mask_form == "bias":
            scores = scores + bias
        weights = jax.nn.softmax(scores, last)
        if mask_form == "after":
            weights = jnp.where(visible, weights, 0)
        return jnp.einsum(f"{names},bskc->btkgc", weights.reshape(shape(names)), v)

    def merge_queries(q: Any, k: Any, v: Any, bias: Any) -> Any:
        b, t, heads, groups, c = q.shape
        q = jnp.transpose(q, (0, 2, 3, 1, 4))
        scores = jnp.einsum("bkrc,bskc->bkrs", q.reshape(b, heads, groups * t, c), k)
        scores = scores.reshape(b, heads, groups, t, -1) * 0.5 + bias.ravel()[0]
        weights = jax.nn.softmax(scores, -1).reshape(b, heads, groups * t, -1)
        out = jnp.einsum("bkrs,bskc->bkrc", weights, v)
        return jnp.transpose(out.reshape(b, heads, groups, t, c), (0, 3, 1, 2, 4))

    return d.apply(merge_queries if d.integer(0, 3) == 0 else run, q, k, v, bias)
