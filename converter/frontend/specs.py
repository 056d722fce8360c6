"""Parse input specs, and find the names of arrays that a function holds."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeAlias

import jax
import numpy as np
from jax import export

from converter.errors import SpecError
from converter.frontend import symbolic_scope
from converter.frontend.array_forms import to_jax_array
from converter.ir.dims import is_symbolic

Spec = Any  # a shape, (shape, dtype), an array, a jax.ShapeDtypeStruct, or a pytree of these
Path = tuple[Any, ...]


def is_array_like(leaf: Any) -> bool:
    """Return True if an object is an array of JAX or numpy, or a `jax.ShapeDtypeStruct`."""
    return isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))


Fill: TypeAlias = Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
"""Function that returns the positional and keyword arguments of the user's function for its arrays.

PRNG keys may be given as keys or as arrays of their uint32 numbers.
"""


@dataclass(frozen=True)
class Arguments:
    """The arrays among the arguments of the user's function.

    Arguments:
        structs: the type of each array.
        paths: the path of each array in the pair of positional and keyword arguments.
        fill: returns the positional and the keyword arguments for these arrays. Constants among the
            keyword arguments keep their values.
        constraints: constraints of the named dimensions, as text.
    """

    structs: list[jax.ShapeDtypeStruct]
    paths: list[Path]
    fill: Fill
    constraints: tuple[str, ...] = ()


def parse_arguments(
    specs: Sequence[Spec], kwargs: Mapping[str, Any] | None = None, constraints: Sequence[str] = ()
) -> Arguments:
    """Return the arrays that the specs and keyword arguments of ``to_onnx`` describe.

    Raises:
        SpecError: a spec, a keyword argument or a constraint cannot be used.
    """
    if not isinstance(specs, (list, tuple)) or any(isinstance(s, (int, str)) for s in specs):
        _refuse_specs(specs)
    argument_specs = (tuple(specs), dict(kwargs or {}))

    def is_spec(part: Any) -> bool:
        return part is not argument_specs and part is not argument_specs[0] and _is_leaf(part)

    slots, fill = _select_leaves(argument_specs, _is_array, is_spec)
    scope = symbolic_scope.scope([leaf for _, leaf in slots], constraints)
    structs = [_struct(leaf, scope) for _, leaf in slots]

    def fill_typed(arrays: Sequence[Any]) -> Any:
        return fill([to_jax_array(x, struct) for x, struct in zip(arrays, structs, strict=True)])

    texts = symbolic_scope.constraints(scope)
    return Arguments(structs, [path for path, _ in slots], fill_typed, texts)


def _refuse_specs(specs: Any) -> NoReturn:
    """Raise `SpecError` for specs that are a single shape in place of a list, or that have a number
    or text in place of a shape."""
    entries = specs if isinstance(specs, (list, tuple)) else ()
    if any(isinstance(entry, (list, tuple)) for entry in entries):
        (scalar_entry, *_) = (entry for entry in entries if isinstance(entry, (int, str)))
        raise SpecError(
            f"{scalar_entry!r} in specs is no shape: pass a constant in kwargs by its name, as in "
            f"kwargs={{'n': {scalar_entry!r}}}, or by functools.partial; the spec of an input that "
            "is one number is ()"
        )
    raise SpecError(
        f"specs must be a list with one entry per input, received {specs!r}; "
        f"for one input write [{specs!r}]"
    )


def _is_array(path: Path, leaf: Any) -> bool:
    """Return True if a leaf of the arguments is an array, which becomes an input.

    All leaves of positional arguments are arrays. A keyword argument may also be a number, a string
    or a function; it is then a constant of the program.

    Arguments:
        path: the path of the leaf in the pair of positional and keyword arguments.
        leaf: a spec, or a constant.
    """
    return not _is_named(path) or is_array_like(leaf) or isinstance(leaf, (list, tuple))


def _is_named(path: Path) -> bool:
    """Return True if a path in the pair of positional and keyword arguments leads to a keyword
    argument."""
    return bool(path[0].idx == 1)


def _is_leaf(spec: Any) -> bool:
    """Return True if the search for specs in a pytree has to stop at an object, because it is one
    spec.

    Lists and tuples are one spec if they are a shape, such as ``("B", 3)`` or ``()``, or a pair of
    a shape and a dtype. A named tuple is a pytree. The result for an array is False, because an
    array is a leaf of a pytree in any case.
    """
    if not isinstance(spec, (list, tuple)):
        return isinstance(spec, (jax.ShapeDtypeStruct, np.generic))
    if _is_pair(spec):
        return _is_leaf(spec[0])
    is_shape = any(isinstance(d, (int, str)) or is_symbolic(d) for d in spec)
    return (is_shape or not spec) and not hasattr(spec, "_fields")


def _is_pair(spec: Any) -> bool:
    """Return True if an object is a pair of a shape and a dtype, such as ``((2, 3), "int32")``."""
    if not isinstance(spec, (list, tuple)) or len(spec) != 2:
        return False
    shape, dtype = spec
    return isinstance(shape, (list, tuple)) and isinstance(dtype, (str, np.dtype, type))


def _struct(spec: Spec, scope: export.SymbolicScope) -> jax.ShapeDtypeStruct:
    """Return the type that the spec of one array describes. A shape without a dtype is float32.

    Raises:
        SpecError: the spec is no shape, (shape, dtype) pair, array or `jax.ShapeDtypeStruct`, or
            has a dimension that is neither a name nor a number from 0.
    """
    dtype: Any = np.float32
    if isinstance(spec, jax.ShapeDtypeStruct):
        _check_sizes(spec.shape)
    if isinstance(spec, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)):
        return jax.ShapeDtypeStruct(spec.shape, spec.dtype)
    if _is_pair(spec):
        spec, dtype = spec
    if not isinstance(spec, (list, tuple)):
        raise SpecError(
            f"an input spec must be a shape, a (shape, dtype) pair, an array or a "
            f"jax.ShapeDtypeStruct, received {spec!r}"
        )
    if None in spec:
        raise SpecError(
            f"a dimension is a number or a name, and {tuple(spec)!r} has a None: call one that is "
            'open as you like, such as "batch"'
        )
    if any(isinstance(d, (dict, list, tuple)) for d in spec):
        raise SpecError(
            f"a shape is numbers and names, and {spec!r} has a {_kind_in(spec)} in it: where an "
            "argument holds several arrays, give each its shape, such as ((3,), ()) for (3, 2) and "
            '{"x": (3,)} for {"x": 3}'
        )
    _check_sizes(spec)
    text = ",".join(str(d) for d in spec)
    try:
        shape = export.symbolic_shape(text, scope=scope) if text else ()
    except symbolic_scope.UNREADABLE_DIMENSION as error:
        raise SpecError(f"shape {tuple(spec)!r} cannot be read: {error}") from error
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _kind_in(spec: Sequence[Any]) -> str:
    """Return the type name of the first dictionary, list or tuple in a shape."""
    return next(type(d).__name__ for d in spec if isinstance(d, (dict, list, tuple)))


def _check_sizes(shape: Sequence[Any]) -> None:
    """Raise `SpecError` if a dimension is negative; other libraries use -1 for a dynamic size."""
    if any(isinstance(d, (int, np.integer)) and d < 0 for d in shape):
        raise SpecError(
            f"a dimension is a number from 0 or a name, and {tuple(shape)!r} has a negative one: "
            'call one that is open as you like, such as "batch"'
        )


def input_names(fn: Callable[..., Any], paths: Sequence[Path], skip_params: bool) -> list[str]:
    """Return a name for each input: its argument, and its path in the argument, such as
    ``batch.image``.

    Arguments:
        fn: the function, whose signature has the names of positional arguments. If it has too few,
            or is unknown, all positional arguments are ``input_0``, ``input_1`` …
        paths: the path of each input in the pair of positional and keyword arguments.
        skip_params: true if the first argument of ``fn`` are the parameters, which are no input.
    """
    count = 1 + max((path[1].idx for path in paths if not _is_named(path)), default=-1)
    positional = _positional_names(fn, count, skip_params)
    owners = [str(p[1].key) if _is_named(p) else positional[p[1].idx] for p in paths]
    inner = [path_name(path[2:]) for path in paths]
    return [".".join(filter(None, pair)) for pair in zip(owners, inner, strict=True)]


def _positional_names(fn: Callable[..., Any], count: int, skip_params: bool) -> list[str]:
    """Return names for the first ``count`` positional arguments of a function.

    The names are taken from its signature. If the signature is unknown or has too few parameters,
    they are ``input_0``, ``input_1`` and so on. If ``skip_params`` is true, the first argument of
    the signature is omitted.
    """
    fallback = [f"input_{i}" for i in range(count)]
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return fallback
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names = positional[1:] if skip_params else positional
    return names[:count] if len(names) >= count else fallback


def output_names(tree: Any) -> list[str]:
    """Return a name for each output of a function, from its path in the pytree that the function
    returns.

    Leading numbers are left out if the names stay different: ``logits`` for ``0.logits``, otherwise
    ``output_0.logits``. An output whose path has only numbers, or is empty, is named by its
    position among all outputs, ``output_1``.
    """
    paths = [path_name(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    short = [re.sub(r"^(\d+(\.|$))+", "", path) for path in paths]
    times = Counter(short)
    return [
        (name if times[name] == 1 else f"output_{path}" if path != name else name)
        if name
        else f"output_{i}"
        for i, (path, name) in enumerate(zip(paths, short, strict=True))
    ]


def check_outputs(returned: Any) -> None:
    """Raise `SpecError` if a leaf of the value that the user's function returned is neither an
    array nor a number."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(returned)[0]:
        numbers = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
        if not isinstance(leaf, numbers) and not hasattr(leaf, "__jax_array__"):
            where = path_name(path)
            raise SpecError(
                f"the function returns a {type(leaf).__name__}{where and f' at {where!r}'}, which "
                "no file can give: leave it out of what the function returns, which is arrays, or "
                "lists and dictionaries of them"
            )


def path_name(path: Any) -> str:
    """Return the name of a path in a pytree, with a dot between its parts: ``blocks.0.weight``. The
    field in which Equinox's transformations store a function is omitted."""
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    # eqx.filter_vmap and eqx.filter_jit hold the wrapped function in a field of this name.
    while name.startswith("_fun."):
        name = name.removeprefix("_fun.")
    return name


def _select_leaves(
    tree: Any,
    is_selected: Callable[[Path, Any], bool],
    is_leaf: Callable[[Any], bool] | None = None,
) -> tuple[list[tuple[Path, Any]], Callable[[Sequence[Any]], Any]]:
    """Return the (path, leaf) pairs of selected leaves of a pytree, and a function that replaces
    them.

    The function takes the new leaves in the same order, and returns the pytree with them.

    Arguments:
        is_selected: returns True for the path and the value of a leaf to select.
        is_leaf: returns True for an object that is not searched further, as in ``jax.tree``.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    positions = [i for i, pair in enumerate(leaves) if is_selected(*pair)]

    def fill(replacements: Sequence[Any]) -> Any:
        filled = [leaf for _, leaf in leaves]
        for position, other in zip(positions, replacements, strict=True):
            filled[position] = other
        return jax.tree_util.tree_unflatten(treedef, filled)

    return [leaves[i] for i in positions], fill


def array_leaves(tree: Any) -> tuple[list[tuple[str, Any]], Callable[[Sequence[Any]], Any]]:
    """Return the (name, array) pairs of all arrays in a pytree, and a function that replaces the
    arrays.

    Names are paths such as ``blocks.0.weight``. The function takes new arrays in the same order,
    and returns the pytree with them.
    """
    slots, fill = _select_leaves(tree, lambda _, leaf: is_array_like(leaf))
    return [(path_name(path), leaf) for path, leaf in slots], fill


def _arrays_in(tree: Any) -> list[tuple[str, Any]]:
    """Return the (name, array) pairs of all arrays in an object, or an empty list if it is no valid
    pytree, such as a dictionary whose keys are functions."""
    try:
        return array_leaves(tree)[0]
    except ValueError:
        return []


def captured_arrays(fn: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return the (name, array) pairs of the modules that a function wraps, belongs to, or closes
    over.

    They only provide names: in ``jax.vmap(model)``, ``lambda x: model(x)`` and ``model.encode``,
    parameters get their paths in ``model``. If the function uses several modules, the path starts
    with the variable.
    """
    inner = inspect.unwrap(fn)
    slots = array_leaves(inner)[0]
    if inspect.ismethod(inner):
        return _arrays_in(inner.__self__)
    if slots or not inspect.isfunction(inner):
        return slots
    scopes = {**_globals_read(inner), **inspect.getclosurevars(inner).nonlocals}
    named = {name: leaves for name, tree in scopes.items() if (leaves := _arrays_in(tree))}
    trees = sum(any(path for path, _ in leaves) for leaves in named.values())
    return [
        (".".join(filter(None, (name if trees > 1 or not path else "", path))), leaf)
        for name, leaves in named.items()
        for path, leaf in leaves
    ]


def _globals_read(fn: FunctionType) -> dict[str, Any]:
    """Return the global variables that a function and the functions inside it use, by name."""
    codes = [fn.__code__]
    for code in codes:
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    names = dict.fromkeys(name for code in codes for name in code.co_names)
    return {name: fn.__globals__[name] for name in names if name in fn.__globals__}


def changed_leaves(module: Any, leaves: Sequence[Any]) -> list[str]:
    """Return the names of arrays that a call replaced by other objects in a module, as stateful
    Flax NNX modules do.

    Arguments:
        module: the module after the call.
        leaves: its arrays before the call. If their number has changed, the result is empty.
    """
    leaves_after = array_leaves(module)[0]
    if len(leaves_after) != len(leaves):
        return []
    return [
        path
        for (path, array), previous in zip(leaves_after, leaves, strict=True)
        if array is not previous
    ]
