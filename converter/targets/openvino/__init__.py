"""OpenVINO, which implements the standard and computes float64 in float32 (``docs/runtimes.md``).

Conversions to float64 therefore gain nothing.
"""

from dataclasses import replace

from converter.ir import ops
from converter.targets.standard import TARGET as STANDARD
from converter.targets.target import HALF, LACKED_EVERYWHERE, NARROW, UNSIGNED, MissingKernel

KERNELS = {
    **STANDARD.kernels,
    **dict.fromkeys((ops.digamma, ops.lgamma), MissingKernel(HALF)),
    ops.pow: MissingKernel({**NARROW, **UNSIGNED}, first=1),
}

TARGET = replace(
    STANDARD, name="openvino", kernels=KERNELS, lacks=LACKED_EVERYWHERE, oldest="2026.3"
)
