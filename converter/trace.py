"""From a JAX function to a ``Graph``.

JAX traces the function and applies its own transformations; what comes back is a jaxpr whose calls
(``jit``, ``custom_jvp_call``, ``remat`` …) are inlined in ``converter/jaxprs``.
"""

from __future__ import annotations

import sysconfig
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.extend import source_info_util

from converter.errors import Unsupported
from converter.graph import Graph, Node
from converter.graph.names import Names
from converter.jaxprs import concrete
from converter.jaxprs.inline import DROPPED, Inliner
from converter.jaxprs.keys import held, is_key
from converter.jaxprs.specs import (
    Spec,
    arguments,
    array_leaves,
    array_slots,
    closed_over,
    flat,
    input_names,
    output_names,
)
from converter.jaxprs.values import Constants, canonical, parameter, value_of


def trace(
    fn: Callable[..., Any],
    specs: Sequence[Spec],
    params: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Graph:
    """Trace ``fn`` to a ``Graph``.

    With ``params``, ``fn(params, *inputs)`` is traced and the array leaves of ``params`` become the
    graph's parameters; without, ``fn(*inputs)`` is, and ``fn``'s own array leaves do if it is a
    pytree (an Equinox module). Arrays that ``fn`` closes over become parameters where they can be
    found in the module it wraps, else constants; so are those that ``fn`` looks at in Python.
    """
    call: Callable[..., Any] = fn
    separate = params is not None
    if params is None and array_leaves(fn):
        params, call = fn, _call_module
    given = arguments(specs, kwargs)
    leaves, fill = array_slots(params)

    def called(arrays: Sequence[Any], *args: Any) -> Any:
        head = () if params is None else (fill(arrays),)
        return flat(partial(call, *head), given.fill)(*args)

    run = partial(_jaxpr, called, given.structs, leaves)
    (closed, out_tree), known = concrete.traced(run, leaves)
    _refuse_empty_types(closed.out_avals)
    names, abstract = Names(), [leaf for i, leaf in enumerate(leaves) if i not in known]
    values = [parameter(names.take(path), leaf) for path, leaf in abstract]
    inputs = [value_of(s, "input") for s in given.structs]
    for value, name in zip(inputs, input_names(fn, given.paths, separate), strict=True):
        value.name = name
    numbers = {id(leaves[i][1]) for i in known}
    constants = Constants([(p, v) for p, v in closed_over(fn) if id(v) not in numbers], names)
    nodes: list[Node] = []
    variables = closed.jaxpr.invars
    read = [
        canonical(value, held(variable.aval)[1], nodes)
        for value, variable in zip((*values, *inputs), variables, strict=True)
    ]
    inliner = Inliner(constants)
    outputs = inliner.inline(closed, read, nodes)
    for name in sorted(inliner.dropped):
        warnings.warn(f"left out: {DROPPED[name]}", stacklevel=2)
    extra = constants.params()
    return Graph(inputs, outputs, nodes, [*values, *extra], output_names(out_tree))


def _jaxpr(
    fn: Callable[..., Any],
    inputs: Sequence[jax.ShapeDtypeStruct],
    leaves: Sequence[tuple[str, Any]],
    known: concrete.Places,
) -> Any:
    """The jaxpr of ``fn``, and the types of what it returns; leaves in ``known`` are numbers."""

    def whole(arrays: Mapping[int, Any], *args: Any) -> Any:
        every = [arrays.get(i, leaf) for i, (_, leaf) in enumerate(leaves)]
        return fn(every, *args)

    held = {i: _taken(leaf) for i, (_, leaf) in enumerate(leaves) if i not in known}
    return jax.make_jaxpr(whole, return_shape=True)(held, *map(_taken, inputs))


def _taken(array: Any) -> jax.ShapeDtypeStruct:
    """As JAX takes it: of 64 bits only if it is set to, about which jax >= 0.12 would warn."""
    dtype = array.dtype if is_key(array) else jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.ShapeDtypeStruct(array.shape, dtype)


def _refuse_empty_types(outputs: Sequence[Any]) -> None:
    for index, aval in enumerate(outputs):
        if aval.dtype == jax.dtypes.float0:
            raise Unsupported(
                f"output {index} is a derivative of integers or booleans (its dtype is float0), "
                "which has no numbers to write; leave it out of what the function returns"
            )


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


def _call_module(module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)
