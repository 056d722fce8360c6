"""How far a model in JAX and an ONNX file are from golden numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.cli.tables import print_table


def golden_errors(where: str, errors: Mapping[str, float], limit: float) -> list[dict[str, Any]]:
    """How far each output is from the reference."""
    # A NaN, which JSON has none of, must fail.
    return [
        {"where": where, "output": name, "max_abs": error if math.isfinite(error) else None}
        | {"limit": limit, "passed": error <= limit}
        for name, error in errors.items()
    ]


def show_differences(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Show the same as a table."""
    shown = []
    for row in rows:
        error = "NaN" if row["max_abs"] is None else f"{row['max_abs']:.1e}"
        verdict = "ok" if row["passed"] else "FAILED"
        shown.append((row["where"], row["output"], error, f"{row['limit']:.0e}", verdict))
    print_table(("where", "~output", ">max abs", ">limit", ""), shown, title)
