"""TensorRT: attention in four dimensions and no float64, as its notes say; not measured here.

Source: the operators that its parser lists as supported, 10.15.
"""

from __future__ import annotations

from dataclasses import replace

from converter.targets.standard import STANDARD
from converter.targets.target import HALF, Missing

TENSORRT = replace(
    STANDARD,
    name="tensorrt",
    kernels={**STANDARD.kernels, **dict.fromkeys(("digamma", "lgamma"), Missing(HALF))},
)
