"""Equimo's archives on the hub, pinned: revision and sha256 as equimo 2.7.0 records them."""

import json
from importlib.resources import files

from weights.sources.hub import HubFile

_PINNED = json.loads((files("zoo") / "data" / "equimo_archives.json").read_text())

DIGESTS: dict[str, str] = _PINNED["sha256"]
"""sha256 of every archive there is, by its name without suffix."""


def equimo_file(identifier: str) -> HubFile:
    """The archive of that name, pinned."""
    family = identifier.partition("_")[0]
    archive = f"models/default/{family}/{identifier}.tar.lz4"
    return HubFile(_PINNED["repository"], archive, _PINNED["revision"], DIGESTS[identifier])
