"""Programs for the layout of composites, for weight folding and for loops."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize
from converter.ir import Graph, ops
from converter.layout import channels, heads, norm_layout, siblings
from converter.legalize import support
from converter.loops import rules
from converter.targets import find_target
from converter.targets.target import Form
from converter.weight_folding import affine_folding, weight_programs
from tests.rules.programs import Drawn, Expr
from tests.rules.prove import Case, swept
from tests.rules.recognised import (
    HUGE,
    MANY,
    PLAIN,
    ROTARY,
    attended,
    batch_norm,
    changes,
    grouped,
    until,
)

# ------------------------------------------------------------------------------ layout and weights


def convolutions(d: Drawn) -> Expr:
    """Draw two channels-last convolutions with an elementwise step or a padding between them."""
    x = d.input((1, 5, 6, 2), "float32", PLAIN)
    ws = [d.param((2, 2, 2, 3), "float32", PLAIN), d.param((1, 2, 3, 2), "float32", PLAIN)]
    b = d.param((3,), "float32", PLAIN)
    layouts = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    between = d.pick(
        (jnp.tanh, lambda a: a * 2 + a, lambda a: jnp.pad(a, ((0, 0), (1, 0), (0, 0), (0, 0))))
    )

    def run(a: Any, v: Any, w: Any, c: Any) -> Any:
        y = lax.conv_general_dilated(a, v, (1, 1), "SAME", **layouts)
        return lax.conv_general_dilated(between(y + c), w, (1, 1), "VALID", **layouts)

    return d.apply(run, x, *ws, b)


def split_heads(d: Drawn) -> list[Expr]:
    """Draw queries, keys and values from one product, each transposed to its heads."""
    x, w = d.input((2, 5, 12), "float32", PLAIN), d.param((12, 36), "float32", PLAIN)
    key_permutation = d.pick(((0, 2, 1, 3), (0, 2, 3, 1)))

    def run(a: Any, b: Any, i: int) -> Any:
        part = jnp.split(a @ b, 3, -1)[i].reshape(2, 5, 3, 4)
        return part.transpose(key_permutation if i == 1 else (0, 2, 1, 3))

    return [d.apply(partial(run, i=i), x, w) for i in range(3)]


def scaled(d: Drawn) -> Expr:
    """Draw a linear layer, perhaps views, and then factors, divisors and shifts by parameters."""
    x = d.input((2, 3, 4), "float32", PLAIN)
    pool = d.pick((PLAIN, PLAIN, (*PLAIN, 1e30)))
    w, b = d.param((4, 5), "float32", pool), d.param((5,), "float32", pool)
    y = d.apply(lambda a, v, c: a @ v + c, x, w, b) if d.chance() else d.apply(jnp.matmul, x, w)
    if d.chance():
        y = d.apply(lambda a: -a[:, 1:, 2:].transpose(2, 0, 1) if d else a, y)
        shape: tuple[int, ...] = d.pick([(3, 1, 1), (1, 1, 1), (3, 2, 2), (2,)])
    else:
        shape = d.pick([(5,), (1,), (3, 1), (2, 3, 5), ()])
    for _ in range(d.integer(1, 2)):
        operation = d.pick((lax.mul, lax.div, lax.add, lax.sub))
        draw_operand = d.pick((d.param, d.number, d.param))
        s = draw_operand(shape, "float32", (0.5, 2.0, -1.5, 3.0, *(HUGE if d.chance() else ())))
        is_flipped = d.chance() and operation is not lax.div
        y = d.apply(
            lambda a, c, operation=operation, is_flipped=is_flipped: operation(
                *(
                    (jnp.broadcast_to(c, a.shape), a)
                    if is_flipped
                    else (a, jnp.broadcast_to(c, a.shape))
                )
            ),
            y,
            s,
        )
    return y


def convolved(d: Drawn) -> Expr:
    """Draw a convolution, perhaps a transposed one, with a factor and a shift of its channels."""
    x, w = d.input((1, 4, 5), "float32", PLAIN), d.param((2, 4, 2), "float32", PLAIN)
    lhs_dilation = d.pick(((1,), (2,)))
    s = d.param(d.pick([(2, 1), (1, 1), (2, 1)]), "float32", d.pick(((0.5, 2.0, -1.5), HUGE)))
    t = d.param((2, 1), "float32", PLAIN)
    scale_and_shift = d.pick(
        (lambda a, c, e: a * c + e, lambda a, c, e: (a - e) / c, lambda a, c, e: a + e)
    )

    def run(a: Any, b: Any, c: Any, e: Any) -> Any:
        y = lax.conv_general_dilated(a, b, (1,), ((1, 1),), lhs_dilation=lhs_dilation)
        return scale_and_shift(y, c, e)

    return d.apply(run, x, w, s, t)


def resized_between(d: Drawn) -> Expr:
    """Draw a resize of two axes between transpositions, after a norm along some axis."""
    x = d.input((2, 4, 3, 5), "float32", PLAIN)
    first, last = d.order(4), d.order(4)
    axis, resized_axes = d.integer(0, 3), d.order(4)[:2]
    method, antialias = d.pick(("linear", "cubic")), d.chance()

    def run(a: Any) -> Any:
        y = jax.nn.standardize(a.transpose(first), axis)
        shape = [n if i in resized_axes else 2 * n for i, n in enumerate(y.shape)]
        return jax.image.resize(y, shape, method, antialias).transpose(last)

    return d.apply(run, x)


def fold_weights(graph: Graph) -> bool:
    folding_rules = affine_folding.folding_rules(graph, weight_programs.weight_values(graph), True)
    changed = swept(folding_rules)(graph)
    weight_programs.move_weights_first(graph)
    return changed


def of_weights(d: Drawn) -> Expr:
    x, w = d.input((3, 4), "float32", PLAIN), d.param((4, 2), "float32", PLAIN)
    return d.apply(lambda a, b: a @ (jnp.tanh(b.T) * 2).T + jnp.sum(b), x, w)


# ------------------------------------------------------------------------------------------- loops


def loop(d: Drawn) -> list[Expr]:
    """Draw a scan whose states count, stay constant, or are scaled and added to."""
    x, c = d.input((4, 2), "float32", PLAIN), d.input((2,), "float32", PLAIN)
    step, factor = d.integer(1, 2), d.pick((0.5, -1.0, 1.0, 0.25, *(HUGE if d.chance() else ())))
    reverse, variant = d.chance(), d.integer(0, 2)

    def body(state: Any, row: Any) -> Any:
        i, h, constant = state
        shared = jnp.sin(constant) * row + i
        next_state = (lambda: h * factor + shared, lambda: h + row * 2, lambda: jnp.tanh(h) - row)[
            variant
        ]()
        return (i + step, next_state, constant), (h * 2, shared, row - i)

    def run(a: Any, b: Any) -> list[Any]:
        state, stacked = lax.scan(body, (np.int32(0), b, b + 1), a, reverse=reverse)
        return [*state, *stacked]

    return [d.apply(lambda a, b, i=i: run(a, b)[i], x, c) for i in range(6)]


def mapped(d: Drawn) -> Expr:
    x = d.input((3, 4), "float32", PLAIN)
    fn = d.pick((jnp.sin, lambda r: r @ r, lambda r: jnp.sort(r), lambda r: r[::-1] * 2))
    return d.apply(lambda a: lax.map(fn, a), x)


def count_up(d: Drawn) -> Expr:
    x, limit = d.input((), "int32", (0, 1, 3)), d.integer(1, 5)
    run = lambda a: lax.while_loop(lambda s: s < limit, lambda s: s + 1, a)  # noqa: E731
    return d.apply(
        lambda a: jnp.where(run(a) >= 0, 1, 0) + lax.fori_loop(0, limit, lambda i, s: s + i, a), x
    )


NO_RESIZE = {ops.resize: Form(frozenset(), refuses=lambda node, opset: "no kernel")}
"""A runtime that has no kernel for any resize."""

CASES: dict[str, Case] = {
    # -------------------------------------------------------------------------- layout and weights
    "layout.channels.reorder_channels": Case(
        convolutions, channels.reorder_channels, prepare=[until("channels")], units=64
    ),
    **{
        f"layout.heads.emit_rotary{' plain' * (not has)}": Case(
            ROTARY,
            swept({ops.rotary: partial(heads.emit_rotary, has_operator=lambda *_, has=has: has)}),
            prepare=[until("operands")],
            units=16,
        )
        for has in (True, False)
    },
    **{
        f"layout.heads.{rule.__name__}": Case(
            attended,
            swept({ops.attention: rule}),
            prepare=[until("attention 3d")],
            units=64,
        )
        for rule in (heads.attention_3d, heads.attention_3d_of_transposed)
    },
    **{
        f"layout.norm_layout.emit_group_norm {has}": Case(
            grouped(False),
            swept(
                {
                    ops.group_norm: partial(
                        norm_layout.emit_group_norm, has_operator=lambda *_, h=has: h
                    )
                }
            ),
            prepare=[until("operands", target="standard")],
            units=64,
        )
        for has in (True, False)
    },
    "layout.norm_layout.BATCH_NORM_RULES[batch_norm]": Case(
        batch_norm, prepare=[until("batch norm operands")], units=64
    ),
    "layout.resize_layout.RULES[resize]": Case(None, units=64),
    "legalize.support.OTHER_FORMS[resize]": Case(None, units=64),
    "legalize.support.support_rules": Case(
        None,
        swept(support.support_rules(replace(find_target("onnxruntime"), forms=NO_RESIZE), 23)),
        units=64,
    ),
    "layout.siblings.share_transposes": Case(
        split_heads, siblings.share_transposes, prepare=[until("share transposes")], units=64
    ),
    **{
        f"weight_folding.affine_folding.folding_rules {draw.__name__}": Case(
            draw, fold_weights, prepare=[until("weight folding")], units=64, enough=MANY
        )
        for draw in (scaled, convolved)
    },
    "A resizing between transpositions[resize]": Case(
        resized_between, prepare=[until("arithmetic")], units=1024
    ),
    "Weights of a convolution that overflow with the factor after it[mul]": Case(
        convolved, prepare=[until("quirks")], units=64
    ),
    "weight_folding.weight_programs.move_weights_first": Case(
        of_weights,
        changes(weight_programs.move_weights_first),
        prepare=[until("weight folding")],
        units=64,
    ),
    "weight_folding.weight_programs.hoist_weight_programs": Case(
        of_weights,
        changes(weight_programs.hoist_weight_programs),
        prepare=[until("weight programs")],
        units=64,
    ),
    # --------------------------------------------------------------------------------------- loops
    "loops.rules.batch_loops": Case(mapped, rules.batch_loops, prepare=[until("batch")], units=16),
    "loops.rules.shorten_loops": Case(
        loop, rules.shorten_loops, prepare=[until("loops")], units=64, zeros=True
    ),
    "loops.rules.unroll_scan": Case(
        loop,
        swept({ops.scan: partial(rules.unroll_scan, is_nested=False)}),
        prepare=[until("loops")],
        units=4,
        zeros=True,
    ),
    "loops.rules.bound_states": Case(count_up, rules.bound_states, prepare=[canonicalize]),
}
