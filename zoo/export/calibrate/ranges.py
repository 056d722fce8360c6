"""Ranges of activations by what was observed of them, and int8 files that have them."""

from collections.abc import Mapping
from pathlib import Path

import converter
from converter.model.streaming import Written
from converter.opsets import DEFAULT_TARGET
from zoo.artifacts.choices import Target
from zoo.export.calibrate.observed import Observed
from zoo.export.precision import load_typed
from zoo.export.quantise.fixed_columns import ActivationRange, FixedColumns
from zoo.export.quantise.matrices import quantise
from zoo.export.quantise.products import Floats
from zoo.export.quantise.smooth_quant import even_out


def widest(seen: Mapping[str, Observed]) -> dict[str, ActivationRange]:
    """Range from the least number to the largest one, with zero."""
    return {
        name: ActivationRange(min(each.low, 0.0), max(each.high, 0.0))
        for name, each in seen.items()
    }


def write_fixed(
    source: Path,
    target: Path,
    ranges: Mapping[str, ActivationRange],
    means: Mapping[str, Floats],
    written: Written | None = None,
    runtime: Target = DEFAULT_TARGET,
) -> None:
    """Write a float32 file in int8 with these ranges, and means of the evened activations."""
    model = load_typed(source)
    even_out(model)
    quantise(model, FixedColumns(model.graph, ranges), means)
    converter.find_target(runtime).settle(model)
    converter.save(model, target, written=written)
