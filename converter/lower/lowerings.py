"""Rules from graph operations to ONNX, by the opset that first allows them.

A rule is a function of the builder, the ONNX values of the operands and the node's parameters by
keyword. It returns the ONNX value of each output; the walker stamps names, dtypes and shapes.
Several rules for one operation differ in ``since``: the newest that the opset allows is taken.

A rule owns every parameter: it reads it or says that it ignores it. A node with any other is
refused, so that what a future JAX adds to a primitive is never dropped unseen. Hints, which say
nothing of the result, ended in the trace (``converter.frontend.inline.HINTS``).
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import onnx_ir as ir

from converter.decompositions.registered import Owner, read_by
from converter.errors import ConverterError, Unsupported
from converter.frontend.array_forms import COMPLEX
from converter.frontend.refused import REFUSED
from converter.frontend.trace import source_line
from converter.ir import Node, dims, outside
from converter.ir.op import Op
from converter.opsets import OLDEST
from converter.targets import schemas

Lowering = Callable[..., Any]

BUILTIN_RULES: dict[Op, dict[int, Owner]] = {}
"""By operation, then by the opset that brought what each writes."""


def add_builtin(op: Op, since: int, rule: Owner) -> None:
    BUILTIN_RULES.setdefault(op, {})[since] = rule


def add_user_rule(op: Op | str, since: int, rule: Owner) -> None:
    """Such a rule goes before ours at every opset that allows it."""
    outside.rules_of.add(op, {**outside.rules_of.get(op, {}), since: rule})


def lowers(
    *operations: Any,
    since: int = OLDEST,
    ignores: Iterable[str] = (),
    add: Callable[[Any, int, Owner], None] = add_builtin,
) -> Callable[[Lowering], Lowering]:
    """Register a rule for one or more operations, ours or one from outside."""

    def register(lowering: Lowering) -> Lowering:
        parameters = inspect.signature(lowering).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):  # which would let others vanish
            raise ConverterError(f"a rule has to name its parameters: {lowering}")
        for op in operations:
            add(op, since, Owner(lowering, read_by(lowering), frozenset(ignores)))
        return lowering

    return register


def register_operators(rows: dict[Op, str], **attributes: float) -> None:
    """Register operations that are ONNX operators under another name.

    ``attributes`` are parameters that are attributes of the same name, and their defaults.
    """
    for op, name in rows.items():
        add_builtin(op, OLDEST, Owner(_rename_operator(name, attributes), frozenset(attributes)))


def _rename_operator(name: str, attributes: dict[str, float]) -> Lowering:
    return lambda b, *xs, **params: b.op(name, *xs, **{**attributes, **params})


def find_lowering(op: Op, opset: int, claimed: Collection[str] = ()) -> Owner | None:
    """The newest rule for an operation at this opset: one from outside, else ours; a composite
    without any is the operator that it names, its parameters the attributes.
    """
    for rules in (outside.rules_of.find(op, claimed) or {}, BUILTIN_RULES.get(op, {})):
        if allowed := [since for since in rules if since <= opset]:
            owner: Owner = rules[max(allowed)]
            return owner
    return _operator_rule(op, opset) if op not in BUILTIN_RULES else None


def _operator_rule(op: Op, opset: int) -> Owner | None:
    """A rule for what a recogniser finds, if the opset has its operator."""
    if not op.operator or op.formula is None or schemas.SINCE.get(op.operator, OLDEST) > opset:
        return None
    return Owner(_rename_operator(op.operator, {}), read_by(op.formula))


def apply(b: Any, node: Node, operands: Iterable[ir.Value]) -> Any:
    """Outputs that the node's rule writes."""
    if node.refusal:
        raise Unsupported(node.refusal, source_line(node))
    entry = find_lowering(node.op, b.opset, b.shared.claimed)
    if entry is None:
        raise unsupported(node, b.opset)
    if unknown := entry.unknown(node.params):
        raise unsupported(node, b.opset, f"its rule does not know {', '.join(unknown)}")
    dtypes = {v.dtype.name for v in (*node.inputs, *node.outputs)}
    if unsupported_dtypes := [d for d in dtypes if not b.shared.target.carries(node.op, d)]:
        why = f"nothing is computed in {min(unsupported_dtypes)}; convert to float32 or int8 before, and back"
        raise unsupported(node, b.opset, why)
    return entry.function(b, *operands, **entry.read(node.params))


def unsupported(node: Node, opset: int, reason: str = "") -> Unsupported:
    """The error for a node that cannot be written, with all that a user needs to find it."""
    types = ", ".join(v.type_text() for v in node.inputs)
    opsets = {*BUILTIN_RULES.get(node.op, {}), *(outside.rules_of.find(node.op) or {})}
    needed = [since for since in opsets if since > opset]
    no_rule = "there is no rule for it (converter.rule and converter.expansion register others)"
    missing = _describe_named_dimension(node) or no_rule
    newer = f"it needs opset {min(needed)} or newer" if needed else missing
    hint = REFUSED.get(node.op.name.removesuffix(f" of {COMPLEX}")) or reason or newer
    return Unsupported(
        f"primitive '{node.op}' ({types}) cannot be written at opset {opset}: {hint}",
        source_line(node),
    )


def _describe_named_dimension(node: Node) -> str:
    """What to say where a parameter has to be a number, and is a named dimension."""
    for name, dim in named_dimensions(node.params):
        return f"its {name} have the dimension '{dim}', and need numbers; give one in specs"
    return ""


def named_dimensions(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Parameters that are named dimensions, or have some in them, and these."""
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
"""The opset from which ONNX has each dtype, by its name."""


def check_dtype(value: Any, node: Node, opset: int) -> None:
    """**Raises** `Unsupported` where ONNX has no values of a dtype at an opset."""
    name = value.dtype.name
    if DTYPE_OPSETS.get(name, opset + 1) <= opset:
        return
    newer = f" before opset {DTYPE_OPSETS[name]}" if name in DTYPE_OPSETS else ""
    raise unsupported(node, opset, f"ONNX has no values of dtype {name}{newer}")
