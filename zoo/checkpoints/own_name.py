"""What somebody's own checkpoint is called, and under which terms it is."""

import re
from dataclasses import replace
from pathlib import Path

from weights.parameters import parameter
from zoo.architectures.entry import Licence, ModelInfo
from zoo.checkpoints.source import Given
from zoo.common.errors import BadRequest
from zoo.common.fields import OWN_NAME
from zoo.registry.lookup import MODELS

SAYING_NOTHING = ("model", "pytorch_model", "weights", "checkpoint", "state_dict", "best", "last")
"""Names of files that are everybody's: their folder has a name."""

OWN_LICENCES = {
    "apache-2.0": ("Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
    "cc-by-4.0": ("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/"),
    "cc-by-nc-4.0": ("CC BY-NC 4.0", "https://creativecommons.org/licenses/by-nc/4.0/"),
    "mit": ("MIT License", "https://opensource.org/license/mit"),
}
"""Licences whose words are in `data/licences`, by what hubs call them."""


def with_own_facts(entry: ModelInfo, asked: Given) -> ModelInfo:
    """An entry with the name and the licence that somebody gives a checkpoint. **Raises**
    `BadRequest` for a name that is none, or that of a published model."""
    if asked.name:
        if not OWN_NAME.fullmatch(asked.name):
            raise BadRequest(
                f"{parameter('name')} {asked.name!r} cannot be the name of a folder everywhere: "
                "write letters, digits, `_`, `-` and `.`, 80 at most."
            )
        if asked.name in MODELS and asked.name != entry.name:
            raise BadRequest(
                f"{parameter('name')} {asked.name} is the name of a published model: choose "
                "another."
            )
        entry = entry.called(asked.name)
    elif entry.name == entry.family:
        entry = entry.called(_name_of(asked.path))
    if asked.licence:
        name, page = OWN_LICENCES.get(asked.licence.casefold(), (asked.licence, ""))
        text = f"{asked.licence.casefold()}.txt" if page else ""
        entry = replace(entry, licence=Licence(name, text, page, ""))
    return entry


def _name_of(path: Path) -> str:
    """A name from that of a file or folder; empty where that says nothing."""
    for name in (path.name if path.is_dir() else path.name.partition(".")[0], path.parent.name):
        short = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[:60]
        if short and short not in SAYING_NOTHING:
            return f"own-{short}" if short in MODELS else short
    return ""
