"""OpenVINO: computes float64 in float32, so that nothing is gained by a detour through it.

It runs attention in three and in four dimensions in the same time (2026.4.1, ViT-S/16: 38.5 and
39 ms), and other importers of its devices know four only.
"""

from __future__ import annotations

from dataclasses import replace

from converter.targets.tensorrt import TENSORRT

OPENVINO = replace(TENSORRT, name="openvino")
