"""Jaxprs written into lists of nodes, calls inlined. Differences between JAX versions end here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core as jex

from converter import expand
from converter.expand.registry import Expansion
from converter.expand.scatter import scatter_apply
from converter.graph import Graph, Node, Value, const, make_node
from converter.graph.dims import as_shape
from converter.graph.nodes import Meaning
from converter.jaxprs.values import Constants, value_of

# primitive -> the parameter that holds its jaxpr; each is a plain call at inference
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
}

# Dimension numbers: named tuples of axes.
NUMBERS = (lax.ConvDimensionNumbers, lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers)

# Parameters that say how or where to compute, and nothing of the result: nodes do not have them.
# What a scatter does with its updates is in its name; one that applies a function is expanded.
HINTS = frozenset(
    {
        *("accuracy", "sharding", "out_sharding", "weak_type", "unroll"),
        *("indices_are_sorted", "unique_indices", "update_jaxpr", "update_consts"),
        *("recall_target", "reduction_input_size_override"),
    }
)

UNSET = frozenset({"out_dtype"})
"""Parameters that say nothing as long as they are ``None``."""


class Inliner:
    """Writes jaxprs into lists of nodes, calls inlined.

    ``constants`` turns captured arrays into values, each array into one. ``sources`` are the places
    of the calls around: what a ``jit`` holds knows of its own function only.
    """

    def __init__(self, constants: Constants, sources: tuple[Any, ...] = ()) -> None:
        self.constants = constants
        self.sources = sources

    def inline(self, closed: Any, args: Sequence[Value], nodes: list[Node]) -> list[Value]:
        """Append the equations of a closed jaxpr to ``nodes``; returns its outputs."""
        jaxpr = closed.jaxpr
        given = [self.constants.value(c) for c in closed.consts]
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, given, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Value:
            is_literal = isinstance(atom, jex.Literal)
            return const(atom.val, atom.aval.dtype) if is_literal else env[atom]

        for eqn in jaxpr.eqns:
            inputs = [read(a) for a in eqn.invars]
            env.update(zip(eqn.outvars, self._equation(eqn, inputs, nodes), strict=True))
        return [read(a) for a in jaxpr.outvars]

    def _equation(self, eqn: Any, inputs: list[Value], nodes: list[Node]) -> list[Value]:
        inner = Inliner(self.constants, (eqn.source_info, *self.sources))
        name = eqn.primitive.name
        if name == "call_hi_primitive":
            return inner.inline(_expanded(eqn), inputs, nodes)
        if name == "scatter" and eqn.params["update_jaxpr"] is not None:
            return inner.inline(_applied(eqn), inputs, nodes)
        if eqn.params.get("out_dtype") is not None:
            return inner.inline(_widened(eqn), inputs, nodes)
        if name in CALLS:
            return inner.inline(_closed(eqn.params[CALLS[name]]), inputs, nodes)
        expansion = expand.find(name)
        if expansion is not None and expansion.knows(eqn.params.keys() - HINTS):
            return inner.inline(_instead(eqn, expansion), inputs, nodes)
        node = CONTROL[name](inner, eqn, inputs) if name in CONTROL else _plain(eqn, inputs)
        node.source = inner.sources
        nodes.append(node)
        return node.outputs

    def body(self, closed: Any, captured: Sequence[Value]) -> Graph:
        """A nested graph: the first arguments are captured from outside, the rest its inputs."""
        inner = [value_of(v.aval, "input") for v in closed.jaxpr.invars[len(captured) :]]
        nodes: list[Node] = []
        outputs = self.inline(closed, [*captured, *inner], nodes)
        return Graph(inner, outputs, nodes)


def _expanded(eqn: Any) -> Any:
    """What a function is made of that jax >= 0.12 keeps whole, such as ``searchsorted``."""
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(lambda *xs: eqn.primitive.to_lojax(*xs, **eqn.params))(*types)


def _instead(eqn: Any, expansion: Expansion) -> Any:
    """What the expansion of a primitive makes of the operands."""
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    params = {k: v for k, v in eqn.params.items() if k in expansion.reads}
    return jax.make_jaxpr(lambda *xs: expansion.function(*xs, **params))(*types)


def _widened(eqn: Any) -> Any:
    """A product in a wider dtype is one of wider operands."""
    params = {**eqn.params, "out_dtype": None}
    wide = eqn.params["out_dtype"]
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(lambda *xs: eqn.primitive.bind(*(x.astype(wide) for x in xs), **params))(
        *types
    )


def _applied(eqn: Any) -> Any:
    """What ``x.at[i].apply(f)`` does, with ``f`` from the jaxpr of its scatter."""
    p = eqn.params
    update = jex.jaxpr_as_fun(jex.ClosedJaxpr(p["update_jaxpr"], p["update_consts"]))
    x, indices, updates = (jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars)

    def apply(x: jax.Array, indices: jax.Array, _: jax.Array) -> jax.Array:
        return scatter_apply(
            lambda element: update(element, element)[0],
            x,
            indices,
            updates.shape,
            dimension_numbers=p["dimension_numbers"],
            mode=p["mode"],
            unique=p["unique_indices"],
        )

    return jax.make_jaxpr(apply)(x, indices, updates)


def _closed(jaxpr: Any) -> Any:
    """Some primitives carry an open jaxpr (``remat``); close it."""
    return jaxpr if isinstance(jaxpr, jex.ClosedJaxpr) else jex.ClosedJaxpr(jaxpr, ())


def _types(variables: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(as_shape(v.aval.shape), v.aval.dtype) for v in variables]


def _plain(eqn: Any, inputs: list[Value]) -> Node:
    hints = {k: v for k, v in eqn.params.items() if k in HINTS or (k in UNSET and v is None)}
    params = {k: _plain_ints(v) for k, v in eqn.params.items() if k not in hints}
    node = Node(eqn.primitive.name, inputs, params, meaning=_meaning(eqn.primitive, hints))
    for i, (shape, dtype) in enumerate(_types(eqn.outvars)):
        node.outputs.append(Value(shape, dtype, node=node, index=i))
    return node


def _plain_ints(param: Any) -> Any:
    """JAX mixes numpy integers into its tuples of axes; equal parameters should look equal."""
    if isinstance(param, NUMBERS):
        return type(param)(*(_plain_ints(x) for x in param))
    if type(param) is tuple:
        return tuple(_plain_ints(x) for x in param)
    return int(param) if isinstance(param, np.integer) else param


def _control(eqn: Any, inputs: Sequence[Value], params: Mapping[str, Any], **bodies: Graph) -> Node:
    node = make_node(eqn.primitive.name, inputs, _types(eqn.outvars), params)
    node.bodies = bodies
    return node


def _scan(inliner: Inliner, eqn: Any, inputs: list[Value]) -> Node:
    fixed, carried = _scan_counts(eqn.params)
    kept = {"num_carry": carried, **{k: eqn.params[k] for k in ("length", "reverse")}}
    body = inliner.body(eqn.params["jaxpr"], inputs[:fixed])
    return _control(eqn, inputs[fixed:], kept, body=body)


def _scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many operands of a scan are loop invariant, how many are carried."""
    if "ft_in" in params:  # jax >= 0.12
        fixed, carried, _ = (len(part) for part in params["ft_in"].unpack())
        return fixed, carried
    return params["num_consts"], params["num_carry"]


def _while(inliner: Inliner, eqn: Any, inputs: list[Value]) -> Node:
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond = inliner.body(eqn.params["cond_jaxpr"], inputs[:n_cond])
    body = inliner.body(eqn.params["body_jaxpr"], inputs[n_cond : n_cond + n_body])
    if cond.outputs[0].shape:
        (live,) = inliner.inline(
            eqn.params["cond_jaxpr"], [*inputs[:n_cond], *body.inputs], body.nodes
        )
        _freeze_finished(cond, body, live)
    return _control(eqn, inputs[n_cond + n_body :], {}, cond=cond, body=body)


def _freeze_finished(cond: Graph, body: Graph, live: Value) -> None:
    """``vmap`` of a loop: it runs while any lane is live; lanes that are not keep their state."""
    lanes = cond.outputs[0]
    any_lane = make_node(
        "reduce_or", [lanes], [((), lanes.dtype)], {"axes": tuple(range(lanes.rank))}
    )
    cond.nodes.append(any_lane)
    cond.outputs = any_lane.outputs
    for i, (old, new) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        spread = make_node(
            "broadcast_in_dim",
            [live],
            [(old.shape, live.dtype)],
            {"shape": old.shape, "broadcast_dimensions": tuple(range(live.rank))},
        )
        chosen = make_node("select_n", [spread.out, old, new], [(old.shape, old.dtype)])
        body.nodes += [spread, chosen]
        body.outputs[i] = chosen.out


def _cond(inliner: Inliner, eqn: Any, inputs: list[Value]) -> Node:
    branches = [inliner.body(b, inputs[1:]) for b in eqn.params["branches"]]
    return _control(eqn, inputs[:1], {}, **{f"branch_{i}": b for i, b in enumerate(branches)})


CONTROL: dict[str, Callable[[Inliner, Any, list[Value]], Node]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}


def _meaning(primitive: Any, hints: Mapping[str, Any]) -> Meaning:
    """What a primitive does to concrete or traced arrays."""

    def apply(args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        out = primitive.bind(*args, **primitive.get_bind_params({**params, **hints}))
        return list(out) if primitive.multiple_results else [out]

    return apply
