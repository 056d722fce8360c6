"""OpenVINO, which takes the standard, and computes float64 in float32 (``docs/runtimes.md``).

So nothing is gained by a detour through float64.
"""

from dataclasses import replace

from converter.ir import ops
from converter.targets.standard import TARGET as STANDARD
from converter.targets.target import HALF, NARROW, UNSIGNED, Missing, lack

KERNELS = {
    **STANDARD.kernels,
    **dict.fromkeys((ops.digamma, ops.lgamma), Missing(HALF)),
    ops.pow: Missing({**NARROW, **UNSIGNED}, first=1),
}

LACKS = (
    lack("GroupNormalization"),
    lack("Attention RotaryEmbedding Gelu", "float64"),
    lack("InstanceNormalization LSTM GRU RNN", "bfloat16 float64"),
    lack("BatchNormalization", "bfloat16"),
    lack("Resize", "bfloat16 float64 int16 int64 uint16 uint32 uint64 bool"),
)
"""Not looked at: what has never been written for it."""

TARGET = replace(STANDARD, name="openvino", kernels=KERNELS, lacks=LACKS)
