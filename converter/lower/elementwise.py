"""Elementwise rules: mostly a table."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from converter.build import Builder
from converter.lower.registry import lower, table

table(
    {
        "abs": "Abs",
        "acos": "Acos",
        "acosh": "Acosh",
        "add": "Add",
        "asin": "Asin",
        "asinh": "Asinh",
        "atan": "Atan",
        "atanh": "Atanh",
        "ceil": "Ceil",
        "cos": "Cos",
        "cosh": "Cosh",
        "div": "Div",
        "eq": "Equal",
        "erf": "Erf",
        "exp": "Exp",
        "floor": "Floor",
        "ge": "GreaterOrEqual",
        "gt": "Greater",
        "le": "LessOrEqual",
        "log": "Log",
        "logistic": "Sigmoid",
        "lt": "Less",
        "max": "Max",
        "min": "Min",
        "mul": "Mul",
        "neg": "Neg",
        "pow": "Pow",
        "sign": "Sign",
        "sin": "Sin",
        "sinh": "Sinh",
        "sqrt": "Sqrt",
        "sub": "Sub",
        "tan": "Tan",
        "tanh": "Tanh",
    }
)


@lower("square")
def _(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("Mul", x, x)


@lower("rsqrt")
def _(b: Builder, x: ir.Value, **_: Any) -> ir.Value:
    return b.op("Reciprocal", b.op("Sqrt", x))


@lower("erfc")
def _(b: Builder, x: ir.Value) -> ir.Value:
    return b.op("Sub", b.like(1), b.op("Erf", x))
