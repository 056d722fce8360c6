"""OpenVINO, which implements the standard and computes float64 in float32 (``docs/runtimes.md``).

Conversions to float64 would therefore not improve the precision.
"""

from dataclasses import replace

from converter.ir import ops
from converter.targets.standard import TARGET as STANDARD
from converter.targets.target import (
    HALF_CONVERSIONS,
    LACKED_EVERYWHERE,
    NARROW_CONVERSIONS,
    UNSIGNED_CONVERSIONS,
    MissingKernel,
)

KERNELS = {
    **STANDARD.kernels,
    **dict.fromkeys((ops.digamma, ops.lgamma), MissingKernel(HALF_CONVERSIONS)),
    ops.pow: MissingKernel({**NARROW_CONVERSIONS, **UNSIGNED_CONVERSIONS}, first_operand=1),
}

TARGET = replace(
    STANDARD, name="openvino", kernels=KERNELS, lacks=LACKED_EVERYWHERE, oldest="2026.3"
)
