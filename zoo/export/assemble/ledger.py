"""The manifest of a folder while it is being built: what is in it is proven, and nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from weights.parameters import parameter
from zoo.artifacts.read import read_manifest, to_text
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile, BadOutput
from zoo.common.staging import replacing, sidecar_path, write_text, writing
from zoo.export.assemble.plan import PLANNED_FILES

IDENTITY = {"model", "input", "size", "outputs", "weights"}
"""What has to be the same for earlier files to belong to this build."""


class Ledger:
    """A folder's manifest. Files get into it after they are in their places."""

    def __init__(self, folder: Path, header: Manifest, variants: Sequence[str], force: bool):
        """Start from what an earlier build proved; `variants` are those that this one makes.

        **Raises** `BadOutput` if that was a build of something else, or with other versions, of
        which files would be left over, unless it is to be replaced.
        """
        self.folder, self.content = folder, header
        earlier = None if force else read_ledger(folder)
        if earlier is None:
            return
        now, before = (each.model_dump(include=IDENTITY) for each in (header, earlier))
        different = [key for key in now if before[key] != now[key]]
        if different:
            raise BadOutput(
                f"{folder} holds a build with other {' and '.join(different)}: replace it with "
                f"{parameter('force')}, or choose another place with {parameter('out')}."
            )
        if earlier.tools == header.tools:
            right = tuple(file for file in earlier.files if file.is_at(folder))
            names = {file.name for file in right}
            kept = {n: v for n, v in earlier.variants.items() if names.issuperset(v.files)}
            # Of nothing that is gone or has changed is a build complete.
            complete = earlier.complete and len(right) == len(earlier.files)
            self.content = header.changed(
                files=right, variants=kept, complete=complete, speeds=earlier.speeds
            )
        elif lost := [name for name in earlier.variants if name not in variants]:
            raise BadOutput(
                f"{folder} holds {' and '.join(lost)} of a build with {_changed(earlier, header)}: "
                f"build them again with {parameter('variant')}, replace the folder with "
                f"{parameter('force')}, or choose another place with {parameter('out')}."
            )

    def publish(
        self, stage: Path, names: Sequence[str], digests: Mapping[str, str], **changes: object
    ) -> None:
        """Move staged files to their places in the folder, then write down that they are there.

        `digests` are those that are known of them, by the names of the staged files.
        """
        with writing(self.folder):
            for name in names:
                place = self.folder / name
                place.parent.mkdir(exist_ok=True)
                (stage / PurePosixPath(name).name).replace(place)
        staged = {name: digests.get(PurePosixPath(name).name) for name in names}
        fresh = {name: File.at(self.folder / name, name, staged[name]) for name in names}
        files = sorted((self.content.listed | fresh).items())
        self.write(files=tuple(file for _, file in files), **changes)

    def write(self, **changes: object) -> None:
        """Change the manifest, and put it in its place."""
        self.content = self.content.changed(**changes)
        with replacing(self.folder / MANIFEST) as file:
            write_text(file, to_text(self.content))

    def drop_strangers(self) -> None:
        """Remove files of an earlier build that this one has no part in."""
        for spec in PLANNED_FILES.values():
            for path in (self.folder / spec.path, sidecar_path(self.folder / spec.path)):
                if path.relative_to(self.folder).as_posix() not in self.content.listed:
                    path.unlink(missing_ok=True)


def _changed(earlier: Manifest, header: Manifest) -> str:
    """The versions that another build had: ``onnxruntime 1.31.0 (1.32.0 here)``."""
    others = [
        f"{name} {version} ({header.tools.get(name, 'none')} here)"
        for name, version in earlier.tools.items()
        if header.tools.get(name) != version
    ]
    return ", ".join(others) or "fewer tools"


def read_ledger(folder: Path) -> Manifest | None:
    """An earlier build's manifest, if any. **Raises** `BadOutput` for anything else so called."""
    path = folder / MANIFEST
    try:
        return read_manifest(path) if path.exists() else None
    except BadFile as error:
        raise BadOutput(
            f"{path} is no manifest of a build: move it away, or use {parameter('force')}."
        ) from error
