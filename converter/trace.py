"""From a JAX function to a ``Graph``. The only module that touches jaxpr internals.

JAX traces the function and applies its own transformations; what comes back is a jaxpr whose calls
(``jit``, ``custom_jvp_call``, ``remat`` …) are inlined here. Differences between JAX versions end
in this file.
"""

from __future__ import annotations

import inspect
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export, lax
from jax.extend import core as jex
from jax.extend import source_info_util

from converter.errors import SpecError
from converter.expand.scatter import scatter_apply
from converter.graph import Graph, Node, Value, const, make_node
from converter.graph.dims import as_shape
from converter.graph.names import Names
from converter.graph.nodes import Meaning

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

Spec = Any  # a shape, (shape, dtype), an array or a jax.ShapeDtypeStruct


def trace(fn: Callable[..., Any], specs: Sequence[Spec], params: Any = None) -> Graph:
    """Trace ``fn`` to a ``Graph``.

    With ``params``, ``fn(params, *inputs)`` is traced and the array leaves of ``params`` become the
    graph's parameters; without, ``fn(*inputs)`` is, and ``fn``'s own array leaves do if it is a
    pytree (an Equinox module). Arrays that ``fn`` closes over become parameters where they can be
    found in the module it wraps, else constants.
    """
    call: Callable[..., Any] = fn
    if params is None and _array_leaves(fn):
        params, call = fn, _call_module
    inputs = _structs(specs)
    leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
    slots = [i for i, (_, leaf) in enumerate(leaves) if is_array_like(leaf)]

    def flat(arrays: Sequence[Any], *args: Any) -> Any:
        filled = [leaf for _, leaf in leaves]
        for slot, array in zip(slots, arrays, strict=True):
            filled[slot] = array
        head = () if params is None else (jax.tree_util.tree_unflatten(treedef, filled),)
        return call(*head, *args)

    structs = [jax.ShapeDtypeStruct(leaves[i][1].shape, leaves[i][1].dtype) for i in slots]
    closed, out_tree = jax.make_jaxpr(flat, return_shape=True)(structs, *inputs)
    names = Names()
    paths = [_path_name(leaves[i][0]) or "param" for i in slots]
    values = [_parameter(names.take(p), leaves[i][1]) for p, i in zip(paths, slots, strict=True)]
    arguments = [Value(as_shape(s.shape), s.dtype, kind="input") for s in inputs]
    for value, name in zip(arguments, _input_names(fn, len(inputs), params is not fn), strict=True):
        value.name = name
    constants = _Constants(_closed_over(fn), names)
    nodes: list[Node] = []
    variables = closed.jaxpr.invars
    given = [
        _canonical(value, variable.aval.dtype, nodes)
        for value, variable in zip((*values, *arguments), variables, strict=True)
    ]
    outputs = _Inliner(constants).inline(closed, given, nodes)
    extra = constants.params()
    return Graph(arguments, outputs, nodes, [*values, *extra], _output_names(out_tree))


def is_array_like(leaf: Any) -> bool:
    """A concrete or abstract array (PRNG keys stay static)."""
    return isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)) and not _is_key(leaf)


def _is_key(array: Any) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.extended))


def _meaning(primitive: Any, hints: Mapping[str, Any]) -> Meaning:
    """What a primitive does to concrete or traced arrays."""

    def apply(args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        out = primitive.bind(*args, **primitive.get_bind_params({**params, **hints}))
        return list(out) if primitive.multiple_results else [out]

    return apply


def source_line(node: Node) -> str:
    """The user's own source line that a node came from, where JAX recorded it.

    The innermost frame outside installed packages, else the innermost outside JAX.
    """
    for source in node.source or ():
        for frame in source.traceback.frames if source.traceback else ():
            if not frame.file_name.startswith((*_INSTALLED, "<")):
                return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    summaries = [source_info_util.summarize(source) for source in node.source or ()]
    return next((s for s in summaries if s), "unknown source line")


_INSTALLED = (
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    sysconfig.get_path("stdlib"),
    str(Path(__file__).parent),
)


def _call_module(module: Callable[..., Any], *args: Any) -> Any:
    return module(*args)


# ------------------------------------------------------------------------------- specs and names


def _structs(specs: Sequence[Spec]) -> list[jax.ShapeDtypeStruct]:
    if not isinstance(specs, (list, tuple)) or any(isinstance(s, (int, str)) for s in specs):
        raise SpecError(
            f"specs must be a list with one entry per input, received {specs!r}; "
            f"for one input write [{specs!r}]"
        )
    scope = export.SymbolicScope()
    return [_struct(spec, scope) for spec in specs]


def _struct(spec: Spec, scope: export.SymbolicScope) -> jax.ShapeDtypeStruct:
    dtype: Any = np.float32
    if isinstance(spec, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)):
        return jax.ShapeDtypeStruct(spec.shape, spec.dtype)
    if isinstance(spec, (list, tuple)) and len(spec) == 2 and isinstance(spec[0], (list, tuple)):
        spec, dtype = spec
    if not isinstance(spec, (list, tuple)):
        raise SpecError(
            f"an input spec must be a shape, a (shape, dtype) pair, an array or a "
            f"jax.ShapeDtypeStruct, received {spec!r}"
        )
    text = ",".join(str(d) for d in spec)
    try:
        shape = export.symbolic_shape(text, scope=scope) if text else ()
    except ValueError as error:
        raise SpecError(f"shape {tuple(spec)!r} cannot be read: {error}") from error
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _input_names(fn: Callable[..., Any], count: int, skip_params: bool) -> list[str]:
    """The function's own argument names where they can be told, else ``input_<i>``."""
    fallback = [f"input_{i}" for i in range(count)]
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return fallback
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names = positional[1:] if skip_params and len(positional) > count else positional
    return names[:count] if len(names) >= count else fallback


def _output_names(tree: Any) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [
        name if name and not name[0].isdigit() else f"output_{i}"
        for i, name in enumerate(_path_name(path) for path, _ in paths)
    ]


def _path_name(path: Any) -> str:
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    # eqx.filter_vmap and eqx.filter_jit keep what they wrap in a field of that name
    while name.startswith("_fun."):
        name = name.removeprefix("_fun.")
    return name


def _array_leaves(tree: Any) -> list[tuple[Any, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(path, leaf) for path, leaf in leaves if is_array_like(leaf)]


def _closed_over(fn: Callable[..., Any]) -> list[tuple[str, Any]]:
    """(path, array) of the modules that a plain function wraps or closes over.

    Only names come from here: ``jax.vmap(model)`` and ``lambda x: model(x)`` give the parameters
    their paths in ``model``.
    """
    inner = inspect.unwrap(fn)
    found = _array_leaves(inner)
    if found or not inspect.isfunction(inner):
        return [(_path_name(path), leaf) for path, leaf in found]
    variables = inspect.getclosurevars(inner)
    scopes: dict[str, Any] = {**variables.globals, **variables.nonlocals}
    named = {name: leaves for name, tree in scopes.items() if (leaves := _array_leaves(tree))}
    trees = sum(any(path for path, _ in leaves) for leaves in named.values())
    result: list[tuple[str, Any]] = []
    for name, leaves in named.items():
        for path, leaf in leaves:
            parts = [name] if trees > 1 or not path else []
            parts += [_path_name(path)] if path else []
            result.append((".".join(parts), leaf))
    return result


# ---------------------------------------------------------------------------------------- values


def _value(aval: Any, kind: Any) -> Value:
    return Value(as_shape(aval.shape), aval.dtype, kind=kind)


def _canonical(value: Value, dtype: Any, nodes: list[Node]) -> Value:
    """What JAX computes with: without x64, 32 bits of the 64 that an input or a parameter has."""
    if value.dtype == dtype:
        return value
    types = [(value.shape, dtype)]
    nodes.append(make_node("convert_element_type", [value], types, {"new_dtype": np.dtype(dtype)}))
    return nodes[-1].out


def _parameter(name: str, leaf: Any) -> Value:
    bound = None if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    return Value(as_shape(leaf.shape), np.dtype(leaf.dtype), "param", name, bound=bound)


class _Constants:
    """Captured arrays: parameters under the names they are found by, else constants.

    Only floats are parameters; captured masks and index tables are known while converting.
    """

    def __init__(self, named: Sequence[tuple[str, Any]], names: Names) -> None:
        self._names = names
        self._by_id = {id(leaf): name for name, leaf in named}
        self._spare = [(name, leaf) for name, leaf in named if isinstance(leaf, np.ndarray)]
        self._values: dict[int, tuple[Value, Any]] = {}  # the array is held, so its id stays its

    def value(self, array: Any) -> Value:
        if id(array) not in self._values:
            floats = jax.numpy.issubdtype(array.dtype, jax.numpy.inexact)
            name = floats and (self._by_id.get(id(array)) or self._name_by_content(array))
            value = _parameter(self._names.take(name), array) if name else _constant(array)
            self._values[id(array)] = value, array
        return self._values[id(array)][0]

    def params(self) -> list[Value]:
        return [value for value, _ in self._values.values() if value.kind == "param"]

    def _name_by_content(self, array: Any) -> str:
        """JAX copies numpy arrays that it captures, so those are found by what they hold."""
        for i, (name, leaf) in enumerate(self._spare):
            alike = leaf.shape == array.shape and leaf.dtype == array.dtype
            if alike and np.array_equal(leaf, np.asarray(array)):
                del self._spare[i]
                return name
        return ""


def _constant(array: Any) -> Value:
    if _is_key(array):
        return Value(array.shape, array.dtype, kind="const", const=array)
    return const(array)


# ---------------------------------------------------------------------------------------- jaxprs


class _Inliner:
    """Writes jaxprs into lists of nodes, calls inlined.

    ``constants`` turns captured arrays into values, each array into one. ``sources`` are the places
    of the calls around: what a ``jit`` holds knows of its own function only.
    """

    def __init__(self, constants: _Constants, sources: tuple[Any, ...] = ()) -> None:
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
        inner = _Inliner(self.constants, (eqn.source_info, *self.sources))
        name = eqn.primitive.name
        if name == "call_hi_primitive":
            return inner.inline(_expanded(eqn), inputs, nodes)
        if name == "scatter" and eqn.params["update_jaxpr"] is not None:
            return inner.inline(_applied(eqn), inputs, nodes)
        if name in CALLS:
            return inner.inline(_closed(eqn.params[CALLS[name]]), inputs, nodes)
        node = CONTROL[name](inner, eqn, inputs) if name in CONTROL else _plain(eqn, inputs)
        node.source = inner.sources
        nodes.append(node)
        return node.outputs

    def body(self, closed: Any, captured: Sequence[Value]) -> Graph:
        """A nested graph: the first arguments are captured from outside, the rest its inputs."""
        inner = [_value(v.aval, "input") for v in closed.jaxpr.invars[len(captured) :]]
        nodes: list[Node] = []
        outputs = self.inline(closed, [*captured, *inner], nodes)
        return Graph(inner, outputs, nodes)


def _expanded(eqn: Any) -> Any:
    """What a function is made of that jax >= 0.12 keeps whole, such as ``searchsorted``."""
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(lambda *xs: eqn.primitive.to_lojax(*xs, **eqn.params))(*types)


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


def _scan(inliner: _Inliner, eqn: Any, inputs: list[Value]) -> Node:
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


def _while(inliner: _Inliner, eqn: Any, inputs: list[Value]) -> Node:
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


def _cond(inliner: _Inliner, eqn: Any, inputs: list[Value]) -> Node:
    branches = [inliner.body(b, inputs[1:]) for b in eqn.params["branches"]]
    return _control(eqn, inputs[:1], {}, **{f"branch_{i}": b for i, b in enumerate(branches)})


CONTROL: dict[str, Callable[[_Inliner, Any, list[Value]], Node]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
