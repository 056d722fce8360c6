"""Small seeded networks of timm (1.0.31), with one argument at a time at another value.

`golden/make_timm_settings.py` wrote the files and logits that timm makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from safetensors.numpy import save_file

from weights.initializers import Float32, Shape

FILE = Path(__file__).parents[1] / "golden" / "timm_settings.json"

Arguments = dict[str, Any]

SIZES = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
STAGES = {"depths": [1, 2, 1, 1], "dims": [8, 12, 16, 20]}
BASES: Mapping[str, Arguments] = {
    "vit_tiny_patch16_224": SIZES,
    "deit_tiny_distilled_patch16_224": SIZES,
    "vit_small_patch14_dinov2": SIZES,
    "vit_small_patch14_reg4_dinov2": SIZES,
    "vit_base_patch16_siglip_224": SIZES,
    "vit_small_patch16_dinov3": SIZES,
    "convnext_tiny": STAGES,
    "convnextv2_atto": STAGES,
    "swinv2_tiny_window8_256": {
        **{"img_size": 48, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3]},
        "window_size": 3,
    },
}
"""Arguments of a small network of each architecture."""


@dataclass(frozen=True)
class TimmCase:
    """An architecture with another value of one argument.

    It has the `config.json` that timm writes, the shapes of the tensors, the size of the picture
    and the logits for it. The case of the unchanged network has an empty `argument`.
    """

    architecture: str
    argument: str
    value: Any
    config: Mapping[str, Any]
    shapes: Mapping[str, Shape]
    size: tuple[int, int]
    logits: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.architecture}-{self.argument}={json.dumps(self.value)}"

    def write(self, folder: Path) -> None:
        """Write the folder that timm saves for the hub."""
        folder.mkdir(parents=True)
        save_file(state_of(self.shapes), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config))

    @property
    def picture(self) -> Float32:
        """The picture that the logits were computed for."""
        return picture(self.size)


def state_of(shapes: Mapping[str, Shape]) -> dict[str, Float32]:
    """Return seeded tensors, which follow from their names."""
    return {name: _tensor(name, shape) for name, shape in shapes.items()}


@cache
def _tensor(name: str, shape: Shape) -> Float32:
    rng = np.random.default_rng(crc32(name.encode()))
    noise = rng.standard_normal(shape).astype(np.float32)
    if name.endswith("running_var"):
        return np.asarray(0.5 + np.abs(noise), np.float32)
    if len(shape) <= 1 or "grn" in name:
        is_scale = name.endswith(("weight", "gamma")) or "gamma_" in name or "logit_scale" in name
        return np.asarray(is_scale + np.float32(0.2) * noise, np.float32)
    return noise / np.float32(np.prod(shape[1:])) ** np.float32(0.5)


def picture(size: tuple[int, int]) -> Float32:
    """Return a seeded picture `[3, height, width]`."""
    return np.random.default_rng(9).standard_normal((3, *size)).astype(np.float32)


@cache
def cases() -> tuple[TimmCase, ...]:
    """Return the cases for which timm can build a network."""
    return tuple(_cases(json.loads(FILE.read_text())))


def _cases(record: Mapping[str, Any]) -> Iterator[TimmCase]:
    for architecture, entry in record.items():
        for argument, value, config, shapes, size, logits in entry["cases"]:
            settings = entry["config"] | config
            settings["model_args"] = entry["config"]["model_args"] | config.get("model_args", {})
            tensors = entry["shapes"] | shapes
            yield TimmCase(
                architecture,
                argument,
                value,
                settings,
                {name: tuple(shape) for name, shape in tensors.items() if shape is not None},
                (size[0], size[1]),
                tuple(logits),
            )
