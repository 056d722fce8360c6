"""Manifests as they are written."""

import json

from pydantic import BaseModel


def to_text(content: object) -> str:
    """JSON for files and for stdout: of a manifest, or of anything that has manifests in it."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=fields) + "\n"


def fields(value: object) -> object:
    """What JSON has in place of a part of a manifest."""
    if not isinstance(value, BaseModel):
        raise TypeError(f"JSON has nothing for a {type(value).__name__}.")
    # What was left out stays out.
    return value.model_dump(mode="json", exclude_unset=True)
