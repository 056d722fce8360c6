"""Rotary embeddings as networks outside of the zoo write them."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.rules.programs import Drawn, Expr

PLAIN = (-1.5, 0.75, 2.5, -0.25, 1.125, 0.5, -2.0, 0.0)
ODD = (*PLAIN, -0.0, np.inf, -np.inf, np.nan)


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
