"""What `block_forms.py` has measured."""

from collections.abc import Mapping

FORMS: Mapping[str, tuple[float, float, float, float]] = {
    "as written": (1.0, 1.0, 1.0, 1.0),
    "Gemm": (0.989, 1.031, 0.961, 1.007),
    "three products": (0.999, 0.981, 0.980, 1.005),
    "Gemm, three products": (0.988, 0.995, 0.958, 1.009),
    "no BiasGelu": (0.988, 0.991, 0.991, 1.006),
    "4-D": (1.021, 1.045, 0.973, 1.006),
    "4-D, one by one": (1.009, 1.010, 0.984, 1.024),
    "opset 18": (1.021, 1.049, 1.001, 1.062),
    "opset 18, x * 0.707": (1.032, 1.107, 1.031, 1.109),
    "last block": (1.054, 1.065, 1.036, 1.040),
    "last block, Gemm": (1.011, 1.021, 0.947, 1.026),
}
"""The time of a vision transformer's block by how it is written, over what the converter writes, on
1 and on 2 threads of an AMD EPYC, and on 1 and 2 of an Intel Xeon, with AVX-512 (1.31.1, DINOv3
ViT-S/16, batch 1; two per cent are noise).

GELU below opset 20 is divided by the root of two since that is what the optimiser knows. Gemm and
three products for queries, keys and values gain nothing that is seen on all, and whoever quantises
a file looks for MatMul by its name and for the matrices of the checkpoint. The optimiser's own
SkipLayerNormalization, which it makes of a sum that only a norm reads, as behind the last block,
takes three times as long as the two; so it is no loss that it does not see the other sums, which
the next sum reads too. BiasGelu takes as long as a sum and Gelu.
"""
