"""The description of a runtime: the operators that it supports, its preferred forms and its
quirks."""

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
from converter.opsets import FIRST_FUSED_OPSET, OPSETS
from converter.targets.casts import Casts, avoid_missing_kernels
from converter.targets.schemas import BFLOAT16_SINCE, SINCE
from converter.targets.versions import ALL, Versions, parse_versions

ConversionTable = Mapping[str, str]
"""The dtype to compute in, by unsupported dtype."""

AttentionLayout: TypeAlias = Literal["4d", "3d"]
"""Layout of the operands of ``Attention``: [batch, heads, positions, width] or [batch, positions,
heads * width]."""


LOWEST_INT64 = np.iinfo(np.int64).min


@dataclass(frozen=True)
class MissingKernel:
    """Dtypes for which a runtime has no correct kernel, with the dtypes to compute in instead.

    Arguments:
        conversions: the dtype to compute in, by unsupported dtype. Both are names.
        first_operand: index of the first operand that is converted. Its dtype determines whether
            the node is converted.
        converts_back: whether results of the unsupported dtype are converted back to it.
        keeps_order: whether the order of numbers matters, so that uint64 is shifted by 2**63 into
            int64.
    """

    conversions: ConversionTable
    first_operand: int = 0
    converts_back: bool = True
    keeps_order: bool = False


def widen_value(editor: Editor, x: Value, dtype: Any, shifted: bool) -> Value:
    """Convert a value to a dtype for which the runtime has a kernel, and return the result.

    Arguments:
        editor: gets the nodes of the conversion.
        x: the value.
        dtype: the dtype to convert to. It is wider than that of the value, except that uint64 may
            become int64.
        shifted: True to subtract 2**63 after a conversion from uint64 to int64, which wraps around.
            The results then have the same order as the original numbers.
    """
    widened = editor.convert(x, dtype)
    return editor.binary(ops.add, widened, const(LOWEST_INT64, np.int64)) if shifted else widened


def narrow_value(editor: Editor, x: Value, dtype: np.dtype, shifted: bool) -> Value:
    """Return a value that ``widen_value`` widened, converted back to its original dtype.

    Arguments:
        editor: gets the nodes of the conversion.
        x: the value in the wider dtype.
        dtype: the original dtype.
        shifted: the same as in ``widen_value``.
    """
    unshifted = editor.binary(ops.sub, x, const(LOWEST_INT64, np.int64)) if shifted else x
    return editor.convert(unshifted, dtype)


OperatorTest: TypeAlias = Callable[[str, str, int], bool]
"""A test whether a runtime lacks an operator, for a dtype, at an opset."""


def lacks_operators(operators: str, dtypes: str = "", opsets: range = OPSETS) -> OperatorTest:
    """Return a test that is true for the operators that a runtime does not support.

    The test takes the name of an operator, the name of a dtype and an opset.

    Arguments:
        operators: names of ONNX operators, separated by blanks.
        dtypes: names of the dtypes for which they are lacking, separated by blanks; empty for all.
        opsets: opsets at which they are lacking.
    """
    names, types = frozenset(operators.split()), frozenset(dtypes.split())
    return lambda operator, dtype, opset: (
        operator in names and opset in opsets and (dtype in types or not types)
    )


@dataclass(frozen=True)
class Deviation:
    """Case in which an ONNX operator may differ from JAX, with the rule that avoids it in a strict
    conversion.

    Arguments:
        sentence: the description in the report.
        exact_rule: the rule that computes JAX's result, or None if there is none.
        affects: a function that returns whether a node is affected. By default, it is a node whose
            first operand has floats.
        absolute_functions: operations of JAX in whose place the operator computes results with an
            absolute error. The verification allows for it.
        absolute_magnitude: magnitude of a result whose rounding error is as large as that error.
        fails_verification: whether the verification fails for some ordinary numbers, because it
            does not allow for the difference.
    """

    sentence: str
    exact_rule: Rule | None = None
    affects: Callable[[Node], bool] = lambda node: is_float(node.inputs[0].dtype)
    absolute_functions: tuple[Op, ...] = ()
    absolute_magnitude: float = 1 / 8
    fails_verification: bool = False


@dataclass(frozen=True)
class Form:
    """Forms in which a runtime runs an operation that is lowered to one operator.

    Arguments:
        dtypes: names of the supported dtypes of the first operand.
        ranks: supported numbers of axes of the first operand.
        refuses: returns why a node with such an operand does not run at an opset, or "" if it runs.
    """

    dtypes: frozenset[str]
    ranks: range = range(64)
    refuses: Callable[[Node, int], str] = lambda node, opset: ""

    def find_misfit(self, node: Node, opset: int) -> str:
        """Return the reason why a node does not run at an opset, or "" if it runs."""
        x = node.inputs[0]
        if x.dtype.name not in self.dtypes:
            return f"no kernel for {x.dtype.name}"
        return self.refuses(node, opset) if x.rank in self.ranks else f"no kernel for {x.rank} axes"


@dataclass(frozen=True)
class Quirk:
    """Fault of a runtime, in comparison with the standard or JAX, and how it is avoided.

    Arguments:
        name: a short description.
        versions: the versions that have it (``<1.32``); empty for all.
        example: the smallest file that shows it, in ONNX's text format without a header.
            ``docs/runtimes.md`` is generated from the examples.
        rules: rules that rewrite the graph, by operation.
        model: rewrites the ONNX model in place; None if nothing in it is changed.
        deviations: cases that would cost too much to avoid, by operation. They are reported, and
            avoided in a strict conversion.
    """

    name: str
    versions: str
    example: str
    rules: Mapping[Op, Rule] = field(default_factory=dict)
    model: Callable[[ir.Model], None] | None = None
    deviations: Mapping[Op, Deviation] = field(default_factory=dict)


@dataclass(frozen=True)
class Lag:
    """Kernels that are missing in older versions of a runtime.

    Arguments:
        versions: the versions in which the kernels are missing.
        casts: for each operator and unsupported dtype, the dtype that is used instead.
        newest_opset: the newest opset of the files that these versions can load.
        lacks: tests for operators that these versions do not support at all.
        model: a function that rewrites the ONNX model in place, for faults that a conversion of
            dtypes cannot avoid.
    """

    versions: str
    casts: Casts = field(default_factory=dict)
    newest_opset: int = OPSETS[-1]
    lacks: tuple[OperatorTest, ...] = ()
    model: Callable[[ir.Model], None] | None = None


_CONTROL = (ops.cond, ops.scan, ops.while_)
DATA_ONLY_DTYPES: Mapping[str, frozenset[Op]] = {
    "float8": frozenset({ops.convert_element_type, ops.reshape, ops.transpose, *_CONTROL}),
    **dict.fromkeys(("int4", "uint4"), frozenset({ops.convert_element_type, ops.cond})),
}
"""The only operations that may have values of a dtype, by the prefix of its name."""


@dataclass(frozen=True)
class Target:
    """Runtime for which files are written, restricted to some of its versions.

    Arguments:
        name: the name that ``to_onnx`` takes.
        kernels: the dtypes that have no kernel and the dtypes to compute in, by operation.
        lacks: tests for operators of the standard that are replaced by other operators, because the
            runtime does not support them or runs them more slowly.
        quirks: faults of the runtime, and the rewrites that avoid them.
        bfloat16: the operations that have a kernel for bfloat16, or None if all operations have
            one.
        attention_layout: the faster layout of ``Attention``.
        versions: the versions for which a file is written.
        oldest: the oldest version for which a file is written by default.
        lags: the kernels that are missing in older versions.
        opset: the default opset.
        opsets: the opsets that the runtime supports.
        static_sizes_only: whether all sizes have to be static.
        dynamic_integers: whether integer products are equally fast if their ranges are computed at
            run time.
        forms: the supported forms of operations, where they are known.
    """

    name: str
    kernels: Mapping[Op, MissingKernel]
    lacks: tuple[OperatorTest, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    bfloat16: frozenset[Op] | None = None
    attention_layout: AttentionLayout = "4d"
    versions: Versions = ALL
    oldest: str = ""
    lags: tuple[Lag, ...] = ()
    opset: int = FIRST_FUSED_OPSET
    opsets: range = OPSETS
    static_sizes_only: bool = False
    dynamic_integers: bool = False
    forms: Mapping[Op, Form] = field(default_factory=dict)

    def select_opset(self, opset: int | None) -> int:
        """Return the requested opset, or the default one for None.

        Raises:
            SpecError: the runtime does not load this opset.
        """
        if opset is None:
            return self.opset
        if opset not in self.opsets:
            ends = " to ".join(map(str, sorted({self.opsets[0], self.opsets[-1]})))
            raise SpecError(f"opset must be {ends} for {self.name}, received {opset}")
        return opset

    def check_fixed_sizes(self, graph: Graph) -> None:
        """Raise `SpecError` if an input has a named dimension and the runtime takes static sizes
        only."""
        for value in graph.inputs if self.static_sizes_only else ():
            if names := [str(dim) for dim in value.shape if is_symbolic(dim)]:
                raise SpecError(
                    f"{self.name} takes fixed sizes only: pass numbers for {', '.join(names)} "
                    f"of {value.name}"
                )

    def has_operator(self, operator: str, dtype: Any, opset: int) -> bool:
        """Return True unless the runtime lacks an operator for a dtype at an opset, so that other
        operators have to replace it.

        A dtype is treated as supported if it is converted to another one (``kernels``). The opset
        that added the operator to the standard is not checked (``supports``).

        Arguments:
            operator: name of the ONNX operator.
            dtype: the dtype of its first operand.
            opset: the opset of the file.
        """
        return not any(
            is_lacking(operator, np.dtype(dtype).name, opset) for is_lacking in self.lacks
        )

    def supports(self, operator: str, dtype: Any, opset: int) -> bool:
        """Return True if the standard has an operator at an opset, and the runtime does not lack it
        for a dtype (``has_operator``).

        For bfloat16, the opset that added this dtype to the operator is also checked.
        """
        since = BFLOAT16_SINCE.get(operator, 0) if np.dtype(dtype) == jnp.bfloat16 else 0
        return max(since, SINCE.get(operator, 0)) <= opset and self.has_operator(
            operator, dtype, opset
        )

    def newest_opset(self, operator: str, dtype: Any = np.float32) -> int:
        """Return the newest of the target's opsets at which the runtime does not lack an operator
        for a dtype (``has_operator``). There must be one."""
        return max(opset for opset in self.opsets if self.has_operator(operator, dtype, opset))

    def allows_dtype(self, op: Op, dtype: str) -> bool:
        """Return True if an operation may have values of the dtype with this name.

        Only the operations in ``DATA_ONLY_DTYPES`` may have float8 or 4-bit integers. Other dtypes
        are allowed for all operations. The result is the same for all targets.
        """
        return all(
            op in supported_ops
            for name, supported_ops in DATA_ONLY_DTYPES.items()
            if dtype.startswith(name)
        )

    def remove_quirks(self, model: ir.Model) -> None:
        """Rewrite a model in place so that the runtime computes it correctly.

        It avoids the quirks that have a rewrite of the model (``Quirk.model``), and the kernels
        that are missing in some of the target's versions (``lags``).
        """
        rewrites = [*(quirk.model for quirk in self.quirks), *(lag.model for lag in self.lags)]
        for rewrite in filter(None, rewrites):
            rewrite(model)
        for lag in self.lags:
            avoid_missing_kernels(model, lag.casts)

    def restrict_to_versions(self, version_text: str) -> Target:
        """Return the target for some of its versions, with the quirks and missing kernels of these.

        The opsets are restricted only if versions are requested. Without, the file is for those
        versions from ``oldest`` on that load its opset.

        Arguments:
            version_text: versions such as ``>=1.31,<2``; empty for those from ``oldest`` on.

        Raises:
            SpecError: the text is no range of versions, or the target has no such version.
        """
        since = f">={self.oldest}" if self.oldest else ""
        matching = self.versions & parse_versions(version_text or since)
        if not matching:
            oldest = ".".join(map(str, self.versions.low))
            raise SpecError(
                f"{self.name}{version_text} has no supported version: the oldest one is {oldest}"
            )
        quirks = tuple(quirk for quirk in self.quirks if parse_versions(quirk.versions) & matching)
        lags = [lag for lag in self.lags if parse_versions(lag.versions) & matching]
        # If no versions are requested, the target is restricted to the versions that support the
        # opset.
        excluded = lags if version_text else []
        newest = min([self.opsets[-1], *(lag.newest_opset for lag in excluded)])
        opsets = range(self.opsets[0], newest + 1)
        return replace(
            self,
            versions=matching,
            quirks=quirks,
            lags=tuple(lags),
            lacks=self.lacks + tuple(lacks for lag in excluded for lacks in lag.lacks),
            opsets=opsets,
            opset=min(self.opset, opsets[-1]),
        )


LACKED_EVERYWHERE = (
    lacks_operators("GroupNormalization"),
    lacks_operators("Attention RotaryEmbedding Gelu InstanceNormalization LSTM GRU RNN", "float64"),
    lacks_operators("InstanceNormalization BatchNormalization LSTM GRU RNN", "bfloat16"),
    lacks_operators("Resize", "bfloat16 float64 int16 int64 uint16 uint32 uint64 bool"),
)
"""Operators that all examined runtimes lack, or run slower than other operators."""

# Tables of conversions, each from unsupported dtypes to the dtype to compute in.
NARROW_CONVERSIONS: ConversionTable = dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32")
UNSIGNED_CONVERSIONS: ConversionTable = {"uint32": "int64", "uint64": "int64"}
BOOL_CONVERSIONS: ConversionTable = {"bool": "int32"}
SHORT_CONVERSIONS: ConversionTable = dict.fromkeys(("int16", "uint16"), "int32")
HALF_CONVERSIONS: ConversionTable = dict.fromkeys(("float16", "bfloat16"), "float32")
FLOAT_CONVERSIONS: ConversionTable = dict.fromkeys(("float16", "bfloat16", "float32"), "float64")

FORMULAS: Mapping[Op, MissingKernel] = {
    # These formulas have several steps, and in half precision each step would be rounded.
    **dict.fromkeys(
        (ops.atan2, ops.cbrt, ops.erf_inv, ops.erfc, ops.expm1, ops.log1p, ops.exp2),
        MissingKernel(HALF_CONVERSIONS),
    ),
    # Near the zeros of these functions, the terms of their formulas cancel.
    **dict.fromkeys((ops.digamma, ops.lgamma), MissingKernel(FLOAT_CONVERSIONS)),
}
"""Operations that are lowered to several operators on every target."""
