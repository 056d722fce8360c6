"""Trace a JAX function to a ``Graph``.

JAX traces the function and applies its transformations. The result is a jaxpr, whose calls
(``jit``, ``custom_jvp_call``, ``remat`` …) are inlined in ``frontend/inline.py``.
"""

import operator
import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from converter.errors import SpecError, UnsupportedError
from converter.frontend import diagnostics
from converter.frontend.array_forms import (
    Constants,
    graph_type,
    is_key,
    new_input,
    new_parameter,
    node_appender,
)
from converter.frontend.inline import DROPPED_PRIMITIVES, Inliner
from converter.frontend.source_lines import is_user_file, line_of
from converter.frontend.specs import (
    Spec,
    array_leaves,
    captured_arrays,
    changed_leaves,
    check_outputs,
    input_names,
    output_names,
    parse_arguments,
)
from converter.ir import Graph, Node
from converter.ir.names import Names

_CONCRETIZATION_ERRORS = (TypeError, IndexError)
"""Errors that JAX raises if a number is needed that is not known: `jax.errors.JAXTypeError` and
`JAXIndexError`, and a plain `TypeError` for a shape."""

STATE_CHANGE_TEXT = (
    "the model changes its own {} while it is called, as BatchNorm and Dropout do in training: the "
    "file does what one such call does, and keeps nothing. For inference convert it as it is used "
    "then; in Flax NNX, call model.eval() first"
)

LeafIndices = frozenset[int]


def trace(
    fn: Callable[..., Any],
    specs: Sequence[Spec],
    params: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    kept_calls: frozenset[str] = frozenset(),
) -> Graph:
    """Trace a function to a graph, before any pass.

    Calls are inlined, except calls of functions under ``jax.jit`` whose names are in
    ``kept_calls``: they become nodes with a body.

    Arguments:
        fn: the function: ``fn(params, *inputs)`` if ``params`` is passed, else ``fn(*inputs)``.
        specs: a spec for each positional input.
        params: a pytree whose array leaves become the graph's parameters. Without it, the array
            leaves of ``fn`` become parameters if it is a pytree (an Equinox module).
        kwargs: keyword arguments: specs of inputs, or constants.
        constraints: constraints of the named dimensions, as text.
        kept_calls: names of functions whose calls are kept.

    Arrays that ``fn`` closes over become parameters if they are float or complex arrays of a module
    that it wraps, otherwise constants. If ``fn`` needs the values of an array in Python, this array
    is also a constant. A warning is given for a model that replaces its own arrays in the call, and
    for each kind of primitive that has no effect in a file and is dropped.

    Raises:
        SpecError: an argument cannot be used, or the function returns no array.
        UnsupportedError: the function cannot be traced, or uses a primitive that is never
            converted.
    """
    call: Callable[..., Any] = fn
    has_params = params is not None
    if params is None and array_leaves(fn)[0]:
        params, call = fn, operator.call
    parsed = parse_arguments(specs, kwargs, constraints)
    leaves, fill = array_leaves(params)
    changed: dict[str, None] = {}

    def call_function(arrays: Sequence[Any], *args: Any) -> Any:
        head = () if params is None else (fill(arrays),)
        positional, named = parsed.fill(args)
        returned = call(*head, *positional, **named)
        check_outputs(returned)
        if not has_params:
            paths = (path for module in head for path in changed_leaves(module, arrays))
            changed.update(dict.fromkeys(paths))
        return returned

    (closed, out_tree), concrete_indices = _trace_jaxpr(call_function, parsed.structs, leaves)
    _refuse_empty_types(closed.out_avals)
    if not closed.out_avals:
        raise SpecError("the function returns no array, so there is nothing for a file to compute")
    names, abstract = Names(), [leaf for i, leaf in enumerate(leaves) if i not in concrete_indices]
    values = [new_parameter(names.take(path or "param"), leaf) for path, leaf in abstract]
    given_names = input_names(fn, parsed.paths, has_params)
    inputs = [new_input(s, name) for s, name in zip(parsed.structs, given_names, strict=True)]
    numbers = {id(leaves[i][1]) for i in concrete_indices}
    constants = Constants([(p, v) for p, v in captured_arrays(fn) if id(v) not in numbers], names)
    nodes: list[Node] = []
    # Without x64, JAX converts inputs and parameters of 64 bits to 32 bits.
    computed = [graph_type(variable.aval)[1] for variable in closed.jaxpr.invars]
    pairs = zip((*values, *inputs), computed, strict=True)
    read = [node_appender(nodes).convert(value, dtype) for value, dtype in pairs]
    inliner = Inliner(constants, kept_calls=kept_calls)
    outputs = inliner.inline(closed, read, nodes)
    _warn(changed, inliner.dropped)
    parameters = [*values, *constants.params()]
    return Graph(inputs, outputs, nodes, parameters, output_names(out_tree), parsed.constraints)


def _warn(changed: Iterable[str], dropped: Iterable[str]) -> None:
    """Warn about a model that changes itself, and about primitives that were dropped.

    Arguments:
        changed: names of arrays that a call of the function replaced in its model.
        dropped: names of primitives that have no effect in a file.
    """
    if paths := [*changed]:
        warnings.warn(STATE_CHANGE_TEXT.format(_list_paths(paths)), stacklevel=3)
    for name in sorted(dropped):
        warnings.warn(f"left out: {DROPPED_PRIMITIVES[name]}", stacklevel=3)


def _list_paths(paths: Sequence[str]) -> str:
    """Return up to three paths as text, followed by the number of further ones, if any."""
    suffix = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + suffix


def _trace_jaxpr(
    fn: Callable[..., Any],
    inputs: Sequence[jax.ShapeDtypeStruct],
    leaves: Sequence[tuple[str, Any]],
) -> tuple[Any, LeafIndices]:
    """Trace a function with as few concrete parameters as possible.

    A parameter has to be concrete if the function needs its numbers in Python. If tracing fails
    otherwise, everything that depends only on concrete numbers is computed while tracing.

    Arguments:
        fn: a function of the list of all parameters and of the inputs.
        inputs: the types of the inputs.
        leaves: names and arrays of the parameters.

    Returns:
        A pair of the closed jaxpr and a pytree with the types of the results; and the indices of
        the concrete parameters.

    Raises:
        UnsupportedError: the function cannot be traced, for a reason that the converter can
            explain. Other errors of the function are raised unchanged.
    """

    def run(structs: Sequence[jax.ShapeDtypeStruct]) -> tuple[Any, LeafIndices]:
        jaxpr = partial(_jaxpr, fn, structs, leaves)
        try:
            return _concretize(jaxpr, leaves)
        except _CONCRETIZATION_ERRORS as error:
            # This is done only if tracing fails, because recognisers cannot match structures that
            # are folded here.
            eager = partial(jaxpr, eager=True)
            try:
                return _concretize(eager, leaves)
            except Exception:
                # JAX's error for a named dimension outside of a trace has no public class.
                raise error from None

    try:
        return run(inputs)
    except diagnostics.DIMENSION_ERRORS as error:
        if refusal := diagnostics.explain_error(error, inputs, run, _raised_at(error)):
            raise refusal from error
        raise


def _jaxpr(
    fn: Callable[..., Any],
    inputs: Sequence[jax.ShapeDtypeStruct],
    leaves: Sequence[tuple[str, Any]],
    concrete_indices: LeafIndices,
    eager: bool = False,
) -> Any:
    """Return the closed jaxpr of a function, and a pytree with the types of its results.

    Arguments:
        fn: a function of the list of all parameters and of the inputs.
        inputs: the types of the inputs.
        leaves: names and arrays of the parameters.
        concrete_indices: indices of the parameters whose numbers the function sees. The others are
            abstract and become inputs of the jaxpr.
        eager: true to compute everything that depends only on concrete numbers while tracing, as
            outside of ``jit``.
    """

    def run_with_leaves(arrays: Mapping[int, Any], *args: Any) -> Any:
        all_leaves = [arrays.get(i, leaf) for i, (_, leaf) in enumerate(leaves)]
        return fn(all_leaves, *args)

    def run_eagerly(*args: Any) -> Any:
        with jax.ensure_compile_time_eval():
            return run_with_leaves(*args)

    abstract = {
        i: _to_struct(leaf) for i, (_, leaf) in enumerate(leaves) if i not in concrete_indices
    }
    run = run_eagerly if eager else run_with_leaves
    return jax.make_jaxpr(run, return_shape=True)(abstract, *map(_to_struct, inputs))


def _to_struct(array: Any) -> jax.ShapeDtypeStruct:
    """Return the type that JAX uses for an array: 32 bits in place of 64 unless x64 is enabled. jax
    >= 0.12 would warn about that."""
    dtype = array.dtype if is_key(array) else jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.ShapeDtypeStruct(array.shape, dtype)


def _refuse_empty_types(outputs: Sequence[Any]) -> None:
    """Raise `UnsupportedError` if an output has the dtype float0, which has no numbers: it is a
    derivative of integers or booleans."""
    for index, aval in enumerate(outputs):
        if aval.dtype == jax.dtypes.float0:
            raise UnsupportedError(
                f"output {index} is a derivative of integers or booleans (its dtype is float0), "
                "which has no numbers to write; leave it out of what the function returns"
            )


def source_line(node: Node) -> str:
    """Return the user's source line that a node comes from, such as ``models/layers.py:44 (gelu)``,
    or "unknown source line"."""
    return line_of(node.source)


def _raised_at(error: Exception) -> str:
    """Return the user's source line that raised an error, or "" if all frames are of libraries."""
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        code = frame.f_code
        if is_user_file(code.co_filename):
            return f"{code.co_filename}:{line} ({code.co_name})"
    return ""


# -------------------------------------------------------------------------------- known parameters

# A model that calls numpy on its weights, or compares a weight in an ``if``, cannot be traced with
# all weights abstract. In this case only the weights that have to be known are traced with their
# values and become constants. The weights of similar layers are treated in the same way.


def _concretize(
    run: Callable[[LeafIndices], Any], leaves: Sequence[tuple[str, Any]]
) -> tuple[Any, LeafIndices]:
    """Return the result of ``run`` with as few concrete leaves as possible, and the indices of
    these.

    Arguments:
        run: traces a function in which the leaves at the given indices are concrete.
        leaves: names and arrays of the parameters.

    Raises:
        TypeError: ``run`` raised it even with all leaves concrete, so that it does not concern
            parameters. The same holds for IndexError.
    """

    def works(groups: Sequence[LeafIndices]) -> bool:
        try:
            run(_union(groups))
        except _CONCRETIZATION_ERRORS:
            return False
        return True

    try:
        return run(frozenset()), frozenset()
    except _CONCRETIZATION_ERRORS:
        groups = _group_similar_leaves(leaves)
        if not groups or not works(groups):
            raise
    concrete_indices = _union(diagnostics.minimal_subset(works, groups))
    return run(concrete_indices), concrete_indices


def _union(groups: Sequence[LeafIndices]) -> LeafIndices:
    """Return the indices that are in any of the groups."""
    return frozenset().union(*groups)


def _group_similar_leaves(leaves: Sequence[tuple[str, Any]]) -> list[LeafIndices]:
    """Return the indices of the leaves that have numbers, in groups whose names differ only in
    numbers, such as those of all ``blocks.N.weight``."""
    groups: dict[str, set[int]] = {}
    for index, (path, leaf) in enumerate(leaves):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            groups.setdefault(re.sub(r"\d+", "0", path), set()).add(index)
    return [frozenset(group) for group in groups.values()]
