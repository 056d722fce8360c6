"""Registry of lowering rules from graph operations to ONNX, by the opset that they need.

A rule is a function of the builder, the ONNX values of the operands and the node's parameters as
keywords. It returns the ONNX value of each output; names, dtypes and shapes are set afterwards.
Several rules for one operation differ in ``since``; the newest one that the opset allows is used.

A rule declares every parameter: it reads it, or ignores it on purpose. A node with any other
parameter is refused, so that a parameter that a later JAX adds is never dropped silently. Hints,
which do not change results, were removed while tracing (``converter.frontend.inline.HINTS``).
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import onnx_ir as ir

from converter.decompositions.registered import DeclaredFunction, keyword_parameters
from converter.errors import ConverterError, UnsupportedError
from converter.frontend.array_forms import COMPLEX
from converter.frontend.refused import REFUSAL_REASONS
from converter.frontend.trace import source_line
from converter.ir import Node, dims, registry
from converter.ir.op import Op
from converter.opsets import OLDEST_OPSET
from converter.targets import schemas

Lowering = Callable[..., Any]

BUILTIN_RULES: dict[Op, dict[int, DeclaredFunction]] = {}
"""Built-in rules by operation, then by the opset that they need."""


def add_builtin(op: Op, since: int, rule: DeclaredFunction) -> None:
    """Register a built-in rule of an operation for ``since`` and later opsets."""
    BUILTIN_RULES.setdefault(op, {})[since] = rule


def add_user_rule(op: Op | str, since: int, rule: DeclaredFunction) -> None:
    """Register a user's rule of an operation for ``since`` and later opsets.

    At these opsets the user's rule is used in place of all built-in rules.
    """
    registry.registered_rules.add(op, {**registry.registered_rules.get(op, {}), since: rule})


def lowers(
    *operations: Any,
    since: int = OLDEST_OPSET,
    ignores: Iterable[str] = (),
    add: Callable[[Any, int, DeclaredFunction], None] = add_builtin,
) -> Callable[[Lowering], Lowering]:
    """Return a decorator that registers a lowering rule for one or more operations.

    **Arguments**

    - `since`: the first opset at which the rule can be used.
    - `ignores`: parameters of the nodes that the rule ignores on purpose.
    - `add`: the function that registers the rule, as a built-in rule or as a user's.

    **Raises** `ConverterError` if the rule has ``**kwargs``, because it would ignore unknown
    parameters.
    """

    def register(lowering: Lowering) -> Lowering:
        parameters = inspect.signature(lowering).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            # A rule with ``**kwargs`` would ignore parameters that it does not know.
            raise ConverterError(f"a rule has to name its parameters: {lowering}")
        for op in operations:
            add(
                op,
                since,
                DeclaredFunction(lowering, keyword_parameters(lowering), frozenset(ignores)),
            )
        return lowering

    return register


def register_operators(rows: dict[Op, str], **attributes: float) -> None:
    """Register rules that lower an operation to one ONNX operator; ``rows`` contains the operator's
    name by operation.

    ``attributes`` are parameters that become attributes of the same name. Their values are used if
    a node does not have the parameter.
    """
    for op, name in rows.items():
        add_builtin(
            op,
            OLDEST_OPSET,
            DeclaredFunction(_rename_operator(name, attributes), frozenset(attributes)),
        )


def _rename_operator(name: str, attributes: dict[str, float]) -> Lowering:
    """Return a rule that emits the operator ``name`` with a node's parameters as attributes.

    ``attributes`` are added if the node does not have these parameters.
    """
    return lambda b, *xs, **params: b.op(name, *xs, **{**attributes, **params})


def find_lowering(
    op: Op, opset: int, user_op_names: Collection[str] = ()
) -> DeclaredFunction | None:
    """Return the newest rule of an operation that this opset allows, or None if there is none.

    A user's rule comes before a built-in rule. A composite that has no built-in rule at any opset
    is lowered to the operator of its name, with its parameters as attributes. ``user_op_names``
    contains the names of the users' primitives in the program.
    """
    for rules in (
        registry.registered_rules.find(op, user_op_names) or {},
        BUILTIN_RULES.get(op, {}),
    ):
        if allowed := [since for since in rules if since <= opset]:
            owner: DeclaredFunction = rules[max(allowed)]
            return owner
    return _operator_rule(op, opset) if op not in BUILTIN_RULES else None


def _operator_rule(op: Op, opset: int) -> DeclaredFunction | None:
    """Return a rule that emits the ONNX operator of a composite.

    Return None if the composite has no operator, or if the opset does not have it.
    """
    if (
        not op.operator
        or op.formula is None
        or schemas.SINCE.get(op.operator, OLDEST_OPSET) > opset
    ):
        return None
    return DeclaredFunction(_rename_operator(op.operator, {}), keyword_parameters(op.formula))


def apply(b: Any, node: Node, operands: Iterable[ir.Value]) -> Any:
    """Return the outputs that the rule of a node emits: an ONNX value, or a sequence of them.

    ``b`` is the builder, ``operands`` are the ONNX values of the operands.

    **Raises** `UnsupportedError` if the node has a ``refusal_reason``, no rule at this opset, a
    parameter that the rule does not know, or a dtype that the target does not support.
    """
    if node.refusal_reason:
        raise UnsupportedError(node.refusal_reason, source_line(node))
    entry = find_lowering(node.op, b.opset, b.shared.user_op_names)
    if entry is None:
        raise unsupported(node, b.opset)
    if unknown := entry.unknown(node.params):
        raise unsupported(node, b.opset, f"its rule does not know {', '.join(unknown)}")
    dtypes = {v.dtype.name for v in (*node.inputs, *node.outputs)}
    if unsupported_dtypes := [d for d in dtypes if not b.shared.target.allows_dtype(node.op, d)]:
        dtype = min(unsupported_dtypes)
        reason = f"nothing is computed in {dtype}; convert to float32 or int8 before, and back"
        raise unsupported(node, b.opset, reason)
    return entry.function(b, *operands, **entry.read(node.params))


def unsupported(node: Node, opset: int, reason: str = "") -> UnsupportedError:
    """Return the error for a node that cannot be lowered, with operand types, advice and source
    line.

    The advice is that of `REFUSAL_REASONS` for the operation, or else ``reason``. Without either it
    is the opset that the node needs, its named dimension, or that no rule exists.
    """
    types = ", ".join(v.type_text() for v in node.inputs)
    opsets = {*BUILTIN_RULES.get(node.op, {}), *(registry.registered_rules.find(node.op) or {})}
    needed = [since for since in opsets if since > opset]
    no_rule = "there is no rule for it (converter.rule and converter.expansion register others)"
    missing = _describe_named_dimension(node) or no_rule
    newer = f"it needs opset {min(needed)} or newer" if needed else missing
    hint = REFUSAL_REASONS.get(node.op.name.removesuffix(f" of {COMPLEX}")) or reason or newer
    return UnsupportedError(
        f"primitive '{node.op}' ({types}) cannot be written at opset {opset}: {hint}",
        source_line(node),
    )


def _describe_named_dimension(node: Node) -> str:
    """Return the advice for a node whose parameters have a named dimension where its rule needs a
    number.

    Return "" if no parameter has one.
    """
    for name, dim in named_dimensions(node.params):
        return f"its {name} have the dimension '{dim}', and need numbers; give one in specs"
    return ""


def named_dimensions(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each named dimension in the parameters, with the name of its parameter."""
    for name, param in params.items():
        entries = param if isinstance(param, (tuple, list)) else (param,)
        yield from ((name, dim) for dim in filter(dims.is_symbolic, entries))


DTYPE_OPSETS = {
    **{f"{kind}{bits}": 1 for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("bool", "float16", "float32", "float64"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 19),
    **dict.fromkeys(("int4", "uint4"), 21),
    "bfloat16": 13,
}
"""The first opset that has each dtype, by the dtype's name."""


def check_dtype(value: Any, node: Node, opset: int) -> None:
    """Raise `UnsupportedError` if ONNX has no values of the dtype of ``value`` at this opset.

    The error names ``node``.
    """
    name = value.dtype.name
    if DTYPE_OPSETS.get(name, opset + 1) <= opset:
        return
    newer = f" before opset {DTYPE_OPSETS[name]}" if name in DTYPE_OPSETS else ""
    raise unsupported(node, opset, f"ONNX has no values of dtype {name}{newer}")
