"""The golden numbers of a folder: one input, and what the network makes of it in JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import converter
from weights.containers.safetensors import read_arrays
from weights.errors import WeightsError
from zoo import runtime
from zoo.artifacts.audit.findings import Finding
from zoo.artifacts.build.extras import GOLDEN
from zoo.errors import BadFile
from zoo.export.precision import LIMITS
from zoo.export.verify import compared, within
from zoo.manifest.schema import Comparison, Variant

INPUTS = ("pixel_values", "image")

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Golden:
    """An input, by its name, and the outputs that belong to it."""

    name: str
    fed: NDArray[np.generic]
    outputs: Arrays


def read(folder: Path) -> Golden:
    """**Raises** `BadFile` if the folder has no such numbers, or damaged ones."""
    path = folder / GOLDEN
    if not path.is_file():
        raise BadFile(f"{path} is missing: pull or build the folder again.")
    try:
        arrays = read_arrays(path)
    except (WeightsError, OSError) as error:
        raise BadFile(str(error)) from error
    given = [name for name in INPUTS if name in arrays]
    if len(given) != 1 or len(arrays) < 2 or arrays[given[0]].ndim != 4:
        raise BadFile(f"{path} holds no single image and outputs, but {ascii(list(arrays))[:200]}.")
    outputs = {name: array for name, array in arrays.items() if name != given[0]}
    return Golden(given[0], arrays[given[0]], outputs)


def rerun(
    live: runtime.Session, variant: Variant, golden: Golden
) -> tuple[Finding, list[Comparison]]:
    """The golden input through a session, and how far from the golden outputs that is."""
    names = [output.name for output in live.get_outputs()]
    lost = sorted(set(names) ^ golden.outputs.keys())
    if lost:
        return Finding("golden", False, f"only one side has {', '.join(lost)}"), []
    try:
        got = dict(zip(names, live.run(names, {golden.name: golden.fed}), strict=True))
        found = [
            compared(golden.fed, name, converter.compare(np.asarray(got[name]), wanted))
            for name, wanted in golden.outputs.items()
        ]
    except runtime.ERRORS as error:
        return Finding("golden", False, runtime.reason(error)), []
    limit = LIMITS[variant.precision]
    errors = [each for item in found if (each := item.error(limit.measure)) is not None]
    worst, sign = (max, "≤") if limit.measure == "max_abs" else (min, "≥")
    shown = f"{worst(errors):.7g}" if len(errors) == len(found) else "no number"
    told = f"{limit.measure} {shown}, {sign} {limit.value} asked"
    return Finding("golden", within(found, limit), told), found
