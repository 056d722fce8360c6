"""Rules from graph operations to ONNX, by name and by the opset that first allows them.

A rule is a function of the builder, the ONNX values of the operands and the node's parameters by
keyword. It returns the ONNX value of each output; the walker stamps names, dtypes and shapes.
Several rules for one operation differ in ``since``: the newest that the opset allows is taken.

A rule owns every parameter: it reads it or says that it ignores it. A node with any other is
refused, so that what a future JAX adds to a primitive is never dropped unseen. Hints, which say
nothing of the result, ended in the trace (``converter.jaxprs.inline.HINTS``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.errors import ConverterError, Unsupported
from converter.graph import Node
from converter.jaxprs.keys import DRAWS, GENERATORS, WRITTEN
from converter.trace import source_line

Lowering = Callable[..., Any]
OLDEST = 17


@dataclass(frozen=True)
class Entry:
    """A rule, and the parameters that it reads and ignores."""

    lowering: Lowering
    reads: frozenset[str]
    ignores: frozenset[str]

    def unknown(self, params: Iterable[str]) -> list[str]:
        """The parameters that the rule knows nothing of."""
        return sorted(set(params) - self.reads - self.ignores)


_rules: dict[str, dict[int, Entry]] = {}

_UNSYMMETRIC = (
    "it is found by iterations that have no counterpart in ONNX; "
    "use jnp.linalg.eigh or svd if the matrix allows it, else compute it before the export"
)
_GENERATOR = (
    "its generator does not draw the same numbers on every device; "
    "make the key with jax.random.key(seed, impl='threefry2x32')"
)
_PYTHON = "a file cannot call Python; compute it before the export or write it in jax.numpy"
REFUSED = {
    **dict.fromkeys(("eig", "schur", "hessenberg"), _UNSYMMETRIC),
    **dict.fromkeys(("pure_callback", "io_callback"), _PYTHON),
    **{f"{op} of {kind}": _GENERATOR for op in DRAWS for kind in GENERATORS if kind != WRITTEN},
    "shard_map": "a file is for one device; convert the function over a mesh of one",
}
"""What is never to have a rule, and what to do instead."""


def rule(
    *ops: str, since: int = OLDEST, ignores: Iterable[str] = ()
) -> Callable[[Lowering], Lowering]:
    """Register a rule for one or more operations; what it ignores is given by name."""

    def register(lowering: Lowering) -> Lowering:
        entry = Entry(lowering, _reads(lowering), frozenset(ignores))
        for op in ops:
            _rules.setdefault(op, {})[since] = entry
        return lowering

    return register


def _reads(lowering: Lowering) -> frozenset[str]:
    """The keyword-only parameters of a rule; a catch-all would let others vanish."""
    parameters = inspect.signature(lowering).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise ConverterError(f"a rule has to name its parameters: {lowering}")
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def table(rows: dict[str, str], since: int = OLDEST) -> None:
    """Register operations that are ONNX operators under another name, without parameters."""
    for op, onnx_op in rows.items():
        rule(op, since=since)(_renamed(onnx_op))


def _renamed(name: str) -> Lowering:
    def lowering(b: Any, *xs: ir.Value) -> ir.Value:
        return b.op(name, *xs)

    return lowering


def find(op: str, opset: int) -> Entry | None:
    """The newest rule for an operation at this opset."""
    allowed = [since for since in _rules.get(op, {}) if since <= opset]
    return _rules[op][max(allowed)] if allowed else None


def apply(b: Any, node: Node, operands: Iterable[ir.Value]) -> Any:
    """What the node's rule writes."""
    entry = find(node.op, b.opset)
    if entry is None:
        raise unsupported(node, b.opset)
    if unknown := entry.unknown(node.params):
        raise unsupported(node, b.opset, f"its rule does not know {', '.join(unknown)}")
    if small := {str(v.dtype) for v in (*node.inputs, *node.outputs) if _is_idle(v, node.op)}:
        why = f"nothing is computed in {min(small)}; convert to float32 or int8 before, and back"
        raise unsupported(node, b.opset, why)
    params = {name: value for name, value in node.params.items() if name in entry.reads}
    return entry.lowering(b, *operands, **params)


def supported() -> frozenset[str]:
    """Every operation that has a rule."""
    return frozenset(_rules)


def unsupported(node: Node, opset: int, why: str = "") -> Unsupported:
    """The error for a node that cannot be written, with all that a user needs to find it."""
    types = ", ".join(_type(v) for v in node.inputs)
    needed = [since for since in _rules.get(node.op, {}) if since > opset]
    newer = f"it needs opset {min(needed)} or newer" if needed else "there is no rule for it"
    hint = REFUSED.get(node.op) or why or newer
    return Unsupported(
        f"primitive '{node.op}' ({types}) cannot be written at opset {opset}: {hint}",
        source_line(node),
    )


def _type(value: Any) -> str:
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


SINCE = {
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 19),
    **dict.fromkeys(("int4", "uint4"), 21),
    "bfloat16": 13,
}
"""The opset from which ONNX has each dtype that is not one of numpy's."""


_CONTROL = ("cond", "scan", "while")
CARRIED = {
    "float8": frozenset({"convert_element_type", "reshape", "transpose", *_CONTROL}),
    **dict.fromkeys(("int4", "uint4"), frozenset({"convert_element_type", "cond"})),
}
"""By how the name of a dtype begins, the operations that ONNX Runtime has kernels of it for."""


def _is_idle(value: Any, op: str) -> bool:
    """Whether a value's dtype is one that the operation has no kernel of."""
    return any(str(value.dtype).startswith(name) and op not in CARRIED[name] for name in CARRIED)


def check_dtype(value: Any, node: Node, opset: int) -> None:
    """**Raises** `Unsupported` where ONNX has no values of a dtype at an opset."""
    dtype = value.dtype
    own = isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.isbuiltin == 1
    if own or SINCE.get(str(dtype), opset + 1) <= opset:
        return
    newer = f" before opset {SINCE[str(dtype)]}" if str(dtype) in SINCE else ""
    raise unsupported(node, opset, f"ONNX has no values of dtype {dtype}{newer}")
