"""Writes the safetensors format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from weights.writers import Item, Step

CODES = {"float32": "F32", "bfloat16": "BF16"}


def write_safetensors(path: Path, items: Sequence[Item], step: Step) -> None:
    """One file, with the note that transformers looks for."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for item in items:
        header[item.key] = {
            "dtype": CODES[item.dtype],
            "shape": list(item.shape),
            "data_offsets": [offset, offset + item.size],
        }
        offset += item.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for item in items:
            file.write(item.data())
            step(item.size)
