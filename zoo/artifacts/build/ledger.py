"""The manifest of a folder while it is being built: what is in it is proven, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from zoo.artifacts.build.variants import VARIANTS
from zoo.errors import BadFile, BadOutput
from zoo.files.staging import sidecar_path, staged, writing
from zoo.manifest.describe import Manifest, fingerprint, to_text
from zoo.manifest.read import parse
from zoo.manifest.schema import FORMAT, MANIFEST

IDENTITY = ("format", "format_version", "model", "input", "size", "weights")
"""What has to be the same for earlier files to belong to this build."""


class Ledger:
    """A folder's manifest. Files get into it after they are in their places."""

    def __init__(self, folder: Path, header: Mapping[str, Any], force: bool):
        """Start from what an earlier build proved.

        **Raises** `BadOutput` if that was a build of something else, unless it is to be replaced.
        """
        self.folder = folder
        earlier = {} if force else read(folder)
        self.content: Manifest = {
            **header,
            "files": [],
            "variants": {},
            "complete": False,
        }
        different = [key for key in IDENTITY if earlier and earlier[key] != self.content[key]]
        if different:
            raise BadOutput(
                f"{folder} holds a build with other {' and '.join(different)}: replace it with "
                "--force, or choose another place with --out."
            )
        if earlier and earlier["tools"] == header["tools"]:
            self._take_over(earlier)

    def _take_over(self, earlier: Mapping[str, Any]) -> None:
        right = [item for item in earlier["files"] if _same(self.folder / item["name"], item)]
        names = {item["name"] for item in right}
        variants = {
            name: variant
            for name, variant in earlier["variants"].items()
            if names.issuperset(variant["files"])
        }
        self.content |= {key: earlier[key] for key in earlier.keys() - self.content.keys()}
        self.content["variants"] = variants
        self.content["files"] = right
        # Of nothing that is gone or has changed is a build complete.
        self.content["complete"] = earlier["complete"] and len(right) == len(earlier["files"])

    @property
    def variants(self) -> Mapping[str, Any]:
        """The variants that are there and proven."""
        return self.content["variants"]

    def has(self, name: str) -> bool:
        """Whether a file is there and proven."""
        return any(item["name"] == name for item in self.content["files"])

    def publish(self, stage: Path, names: Sequence[str], **entries: Any) -> None:
        """Move staged files to their places in the folder, then write down that they are there."""
        with writing(self.folder):
            for name in names:
                place = self.folder / name
                place.parent.mkdir(exist_ok=True)
                (stage / PurePosixPath(name).name).replace(place)
        kept = [item for item in self.content["files"] if item["name"] not in names]
        fresh = [{**fingerprint(self.folder / name), "name": name} for name in names]
        self.content["files"] = sorted([*kept, *fresh], key=lambda item: item["name"])
        self.content |= entries
        self.write()

    def write(self) -> None:
        """Put the manifest in its place."""
        with staged(self.folder) as stage, writing(self.folder):
            (stage / MANIFEST).write_text(to_text(self.content))
            (stage / MANIFEST).replace(self.folder / MANIFEST)

    def drop_strangers(self) -> None:
        """Remove files of an earlier build that this one has no part in."""
        for variant in VARIANTS.values():
            for path in (self.folder / variant.file, sidecar_path(self.folder / variant.file)):
                if not self.has(path.relative_to(self.folder).as_posix()):
                    path.unlink(missing_ok=True)


def read(folder: Path) -> Manifest:
    """An earlier build's manifest, empty if there is none that says what this one would.

    **Raises** `BadOutput` if there is something else of that name.
    """
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text())
        known = content["format"] == FORMAT and {*IDENTITY, "tools"} <= content.keys()
        if content["variants"] == {}:
            # Stopped before the first one was there: nothing is proven that would be missed.
            content |= {"files": [], "complete": False}
        else:
            parse(path.read_bytes(), str(path), content["model"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, BadFile):
        known = False
    if not known:
        raise BadOutput(f"{path} is no manifest of a build: move it away, or use --force.")
    return content


def _same(path: Path, item: Mapping[str, Any]) -> bool:
    found = path.is_file() and path.stat().st_size == item["bytes"]
    return found and fingerprint(path)["sha256"] == item["sha256"]
