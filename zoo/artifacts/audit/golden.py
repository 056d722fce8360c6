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
from zoo.artifacts.audit.manifest import Variant
from zoo.artifacts.build.extras import GOLDEN
from zoo.errors import BadFile
from zoo.export.precision import LIMITS
from zoo.export.verify import Comparison

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
            _compare(golden, name, np.asarray(got[name]), wanted)
            for name, wanted in golden.outputs.items()
        ]
    except runtime.ERRORS as error:
        return Finding("golden", False, runtime.reason(error)), []
    limit = LIMITS[variant.precision]
    passed = all(limit.holds(item.max_abs, item.cosine) for item in found)
    worst = max if limit.measure == "max_abs" else min
    values = {"max_abs": [i.max_abs for i in found], "cosine": [i.cosine for i in found]}
    sign = "≤" if limit.measure == "max_abs" else "≥"
    shown = f"{worst(values[limit.measure]):.7g}"
    return Finding("golden", passed, f"{limit.measure} {shown}, {sign} {limit.value} asked"), found


def _compare(
    golden: Golden, name: str, got: NDArray[np.generic], wanted: NDArray[np.generic]
) -> Comparison:
    batch, *sides = golden.fed.shape
    height, width = sides[1:] if golden.name == "pixel_values" else sides[:2]
    error = converter.compare(got, wanted)
    return Comparison(batch, height, width, name, error.max_abs, error.max_rel, error.cosine)
