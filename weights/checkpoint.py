"""A checkpoint that somebody holds, whatever its container."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weights.files import sha256
from weights.tensors import LazyTensor


@dataclass(frozen=True)
class Checkpoint:
    """What a file or folder holds, tensors unread.

    `container` says how the bytes are kept; `files` are those that hold tensors; `metadata` is
    what the container says about itself.
    """

    path: Path
    container: str
    files: tuple[Path, ...]
    tensors: Mapping[str, LazyTensor]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def sha256(self) -> str:
        """Digest of the file; of the files' names and digests where there are several."""
        if len(self.files) == 1:
            return sha256(self.files[0])
        lines = "".join(f"{sha256(file)}  {file.name}\n" for file in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()
