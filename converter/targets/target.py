"""What a target is: what a runtime has, lacks, likes and gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.errors import SpecError
from converter.ir import Graph, Node, Value, const, ops
from converter.ir.dims import is_symbolic
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.opsets import FUSED, OPSETS
from converter.targets.casts import Casts, avoid_missing_kernels
from converter.targets.schemas import BFLOAT16_SINCE, SINCE
from converter.targets.versions import ALL, Versions, versions

Detour = Mapping[str, str]

AttentionLayout: TypeAlias = Literal["4d", "3d"]
"""Operands of ``Attention``: [batch, heads, positions, width], or heads side by side."""


LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class MissingKernel:
    """Dtypes without a (right) kernel, and the dtypes to compute in instead, without loss.

    The operands from the ``first`` on are converted and, if ``back``, so is the result. Where the
    ``order`` of numbers matters, uint64 becomes int64 by moving 2**63 to 0.
    """

    detour: Detour
    first: int = 0
    back: bool = True
    order: bool = False


def widened_value(editor: Editor, x: Value, dtype: Any, shifted: bool) -> Value:
    """Value in a wider dtype; uint64 in int64 is ``shifted`` down, so that its order stays."""
    wide = editor.convert(x, dtype)
    return editor.binary(ops.add, wide, const(LOWEST, np.int64)) if shifted else wide


def narrowed_value(editor: Editor, x: Value, dtype: np.dtype, shifted: bool) -> Value:
    """Undo what ``widened_value`` made of it."""
    whole = editor.binary(ops.sub, x, const(LOWEST, np.int64)) if shifted else x
    return editor.convert(whole, dtype)


Lack: TypeAlias = Callable[[str, str, int], bool]
"""Whether a runtime has not an operator, in a dtype, at an opset."""


def lack(operators: str, dtypes: str = "", opsets: range = OPSETS) -> Lack:
    """Names with blanks between them; no dtypes are all."""
    names, types = frozenset(operators.split()), frozenset(dtypes.split())
    return lambda operator, dtype, opset: (
        operator in names and opset in opsets and (dtype in types or not types)
    )


@dataclass(frozen=True)
class Deviation:
    """When an operation may differ from JAX, and what a strict conversion writes, if it can.

    One that ``fails_verification`` is off by more than rounding on ordinary numbers, though few.
    """

    sentence: str
    exact: Rule | None = None
    concerns: Callable[[Node], bool] = lambda node: is_float(node.inputs[0].dtype)
    fails_verification: bool = False


@dataclass(frozen=True)
class Form:
    """Form in which a runtime runs an operation that is written as one operator.

    ``dtypes`` and ``ranks`` are those of the first operand; ``refuses`` says why a node with these
    does not run at an opset all the same, and nothing where it does.
    """

    dtypes: frozenset[str]
    ranks: range = range(64)
    refuses: Callable[[Node, int], str] = lambda node, opset: ""

    def misfit(self, node: Node, opset: int) -> str:
        """Return why a node does not run at an opset, or nothing if it does."""
        x = node.inputs[0]
        if x.dtype.name not in self.dtypes:
            return f"no kernel for {x.dtype.name}"
        return self.refuses(node, opset) if x.rank in self.ranks else f"no kernel for {x.rank} axes"


@dataclass(frozen=True)
class Quirk:
    """Deviation of a runtime from the standard and JAX, and how it is avoided.

    ``versions`` are those that do it, all if empty (``<1.32``); ``example`` is the smallest file
    that shows it, in ONNX's text form without a header: ``docs/runtimes.md`` is made of them.
    ``rules`` rewrite the graph, by operation, ``model`` the ONNX model, in place. What would cost
    too much is only noted, by operation, and mended if strict (``deviations``).
    """

    name: str
    versions: str
    example: str
    rules: Mapping[Op, Rule] = field(default_factory=dict)
    model: Callable[[ir.Model], None] | None = None
    deviations: Mapping[Op, Deviation] = field(default_factory=dict)


@dataclass(frozen=True)
class Lag:
    """Kernels that ``versions`` of a runtime do not have yet, and opsets after the ``newest``.

    ``casts`` are dtypes to compute in instead; ``model`` writes the ONNX model without what needs
    more than that, in place; ``lacks`` are operators that they do not have at all.
    """

    versions: str
    casts: Casts = field(default_factory=dict)
    newest: int = OPSETS[-1]
    lacks: tuple[Lack, ...] = ()
    model: Callable[[ir.Model], None] | None = None


_CONTROL = (ops.cond, ops.scan, ops.while_)
CARRIED: Mapping[str, frozenset[Op]] = {
    "float8": frozenset({ops.convert_element_type, ops.reshape, ops.transpose, *_CONTROL}),
    **dict.fromkeys(("int4", "uint4"), frozenset({ops.convert_element_type, ops.cond})),
}
"""By how the name of a dtype begins, the only operations that it is written in."""


@dataclass(frozen=True)
class Target:
    """A runtime, in the ``versions`` that a file is for: what it has, lacks, likes and gets wrong.

    If none are asked for, a file is for the ``oldest`` and those after it; ``lags`` say what older
    ones have not.

    ``kernels`` says by operation of the graph which dtypes take a detour; ``bfloat16`` has the
    operations that take it, and without, all do; ``lacks`` are operators of the standard that are
    not there. ``attention_layout`` and ``opset`` are what it runs best of what it takes, which are
    ``opsets``; ``fixed`` says that it takes no open sizes, ``dynamic_integers`` that products of
    integers take no longer where the file itself computes the range of what is multiplied.
    ``forms`` are those in which it runs operations, where that is known.
    """

    name: str
    kernels: Mapping[Op, MissingKernel]
    lacks: tuple[Lack, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    bfloat16: frozenset[Op] | None = None
    attention_layout: AttentionLayout = "4d"
    versions: Versions = ALL
    oldest: str = ""
    lags: tuple[Lag, ...] = ()
    opset: int = FUSED
    opsets: range = OPSETS
    fixed: bool = False
    dynamic_integers: bool = False
    forms: Mapping[Op, Form] = field(default_factory=dict)

    def at(self, opset: int | None) -> int:
        """The opset that is asked for, or else its own. **Raises** `SpecError` if it has not."""
        if opset is None:
            return self.opset
        if opset not in self.opsets:
            ends = " to ".join(map(str, sorted({self.opsets[0], self.opsets[-1]})))
            raise SpecError(f"opset must be {ends} for {self.name}, received {opset}")
        return opset

    def refuse_open(self, graph: Graph) -> None:
        """**Raises** `SpecError` if a size is open that has to be fixed."""
        for value in graph.inputs if self.fixed else ():
            if names := [str(dim) for dim in value.shape if is_symbolic(dim)]:
                raise SpecError(
                    f"{self.name} takes fixed sizes alone: give numbers for {', '.join(names)} "
                    f"of {value.name}"
                )

    def takes(self, operator: str, dtype: Any, opset: int) -> bool:
        """Whether an operator can be used for a dtype; asked where something can stand in for it.

        A dtype that takes a detour counts as one that is taken.
        """
        return not any(lacks(operator, np.dtype(dtype).name, opset) for lacks in self.lacks)

    def supports(self, operator: str, dtype: Any, opset: int) -> bool:
        """Whether there is such an operator for a dtype at an opset, here and in the standard."""
        since = BFLOAT16_SINCE.get(operator, 0) if np.dtype(dtype) == jnp.bfloat16 else 0
        return max(since, SINCE.get(operator, 0)) <= opset and self.takes(operator, dtype, opset)

    def newest_opset(self, operator: str, dtype: Any = np.float32) -> int:
        """Return the newest of its opsets at which an operator takes a dtype."""
        return max(opset for opset in self.opsets if self.takes(operator, dtype, opset))

    def carries(self, op: Op, dtype: str) -> bool:
        """Whether an operation may have values of a dtype, which nothing is computed in perhaps."""
        return all(op in taken for name, taken in CARRIED.items() if dtype.startswith(name))

    def settle(self, model: ir.Model) -> None:
        """Rewrite a model in place where it would meet a quirk, or a kernel that is not there."""
        rewrites = [*(quirk.model for quirk in self.quirks), *(lag.model for lag in self.lags)]
        for rewrite in filter(None, rewrites):
            rewrite(model)
        for lag in self.lags:
            avoid_missing_kernels(model, lag.casts)

    def only(self, version_text: str) -> Target:
        """The target in some of its versions, with the quirks of these and what one of them lacks.

        **Raises** `SpecError` if there is none that files are written for.
        """
        since = f">={self.oldest}" if self.oldest else ""
        left = self.versions & versions(version_text or since)
        if not left:
            oldest = ".".join(map(str, self.versions.low))
            raise SpecError(
                f"{self.name}{version_text} has no version that files are written for: the oldest "
                f"is {oldest}"
            )
        quirks = tuple(quirk for quirk in self.quirks if versions(quirk.versions) & left)
        lags = [lag for lag in self.lags if versions(lag.versions) & left]
        # Who asks for an opset and no versions means those that have it.
        held = lags if version_text else []
        newest = min([self.opsets[-1], *(lag.newest for lag in held)])
        opsets = range(self.opsets[0], newest + 1)
        return replace(
            self,
            versions=left,
            quirks=quirks,
            lags=tuple(lags),
            lacks=self.lacks + tuple(lacks for lag in held for lacks in lag.lacks),
            opsets=opsets,
            opset=min(self.opset, opsets[-1]),
        )


UNWRITTEN = (
    lack("GroupNormalization"),
    lack("Attention RotaryEmbedding Gelu InstanceNormalization LSTM GRU RNN", "float64"),
    lack("InstanceNormalization BatchNormalization LSTM GRU RNN", "bfloat16"),
    lack("Resize", "bfloat16 float64 int16 int64 uint16 uint32 uint64 bool"),
)
"""What no runtime has that was looked at, or what it has is slower than other operators."""

NARROW: Detour = dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32")
UNSIGNED: Detour = {"uint32": "int64", "uint64": "int64"}
BOOL: Detour = {"bool": "int32"}
SHORT: Detour = dict.fromkeys(("int16", "uint16"), "int32")
HALF: Detour = dict.fromkeys(("float16", "bfloat16"), "float32")
FLOATS: Detour = dict.fromkeys(("float16", "bfloat16", "float32"), "float64")

FORMULAS: Mapping[Op, MissingKernel] = {
    # Of several steps: in half precision each of them would be seen.
    **dict.fromkeys(
        (ops.atan2, ops.cbrt, ops.erf_inv, ops.erfc, ops.expm1, ops.log1p, ops.exp2),
        MissingKernel(HALF),
    ),
    # Near their zeros what their formulas add up cancels.
    **dict.fromkeys((ops.digamma, ops.lgamma), MissingKernel(FLOATS)),
}
"""What is written as several operators, wherever it runs."""
