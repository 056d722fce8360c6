"""Maintain the manifest of a folder while it is built. It lists only files that were verified."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from weights.parameters import parameter
from zoo.artifacts.read import read_manifest, to_text
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile, BadOutput
from zoo.common.staging import replacing, sidecar_path, translate_write_errors, write_text
from zoo.export.assemble.plan import PLANNED_FILES

IDENTITY = {"model", "input", "size", "outputs", "weights"}
"""Fields of the manifest that have to be equal for files of an earlier build to be kept."""


class Ledger:
    """Manifest of a folder that is being built. A file is added after it has been moved to its
    path.

    Arguments:
        folder: the folder.
        header: manifest with the facts that all files share, without files.
        variants: names of the variants of this build.
        force: whether an earlier build in the folder is replaced.
    """

    def __init__(self, folder: Path, header: Manifest, variants: Sequence[str], force: bool):
        """Start with the intact files of an earlier build in the folder.

        The build has to be by the same versions of the tools. Start without files with `force`, and
        also after a build by other versions if this build replaces all its variants. Nothing is
        written.

        **Raises** `BadOutput` if the folder holds a build of another model, of other weights or
        with other inputs and outputs (`IDENTITY`), a build by other versions with variants that
        this build does not replace, or a manifest that is not valid. With `force` none of these is
        checked.
        """
        self.folder, self.manifest = folder, header
        earlier_manifest = None if force else read_earlier_manifest(folder)
        if earlier_manifest is None:
            return
        new_identity, earlier_identity = (
            manifest.model_dump(include=IDENTITY) for manifest in (header, earlier_manifest)
        )
        different = [key for key in new_identity if earlier_identity[key] != new_identity[key]]
        if different:
            raise BadOutput(
                f"{folder} holds a build with other {' and '.join(different)}: replace it with "
                f"{parameter('force')}, or choose another place with {parameter('out')}."
            )
        if earlier_manifest.tools == header.tools:
            intact = tuple(file for file in earlier_manifest.files if file.is_intact_in(folder))
            names = {file.name for file in intact}
            kept_variants = {
                n: v for n, v in earlier_manifest.variants.items() if names.issuperset(v.files)
            }
            # A build is complete if no file is missing or has changed.
            complete = earlier_manifest.complete and len(intact) == len(earlier_manifest.files)
            self.manifest = header.with_changes(
                files=intact,
                variants=kept_variants,
                complete=complete,
                speeds=earlier_manifest.speeds,
            )
        elif left_over := [name for name in earlier_manifest.variants if name not in variants]:
            raise BadOutput(
                f"{folder} holds {' and '.join(left_over)} of a build with "
                f"{_describe_versions(earlier_manifest, header)}: build them again with "
                f"{parameter('variant')}, replace the folder with {parameter('force')}, or choose "
                f"another place with {parameter('out')}."
            )

    def publish(
        self, stage: Path, names: Sequence[str], digests: Mapping[str, str], **changes: object
    ) -> None:
        """Move files from the staged folder `stage` to the built folder, and write the manifest
        that lists them.

        Files are moved in the order of `names`, and replace earlier ones.

        **Arguments:**

        - `stage`: folder in which the files lie under their names without folders.
        - `names`: paths of the files in the built folder.
        - `digests`: sha256 of files, by name without folders. Those that are missing are computed.
        - `changes`: further fields of the manifest to set.

        **Raises** `BadOutput` if a file cannot be moved.
        """
        with translate_write_errors(self.folder):
            for name in names:
                target = self.folder / name
                target.parent.mkdir(exist_ok=True)
                (stage / PurePosixPath(name).name).replace(target)
        staged = {name: digests.get(PurePosixPath(name).name) for name in names}
        new_files = {name: File.at(self.folder / name, name, staged[name]) for name in names}
        files = sorted((self.manifest.files_by_name | new_files).items())
        self.write(files=tuple(file for _, file in files), **changes)

    def write(self, **changes: object) -> None:
        """Set fields of the manifest, and write it to the folder."""
        self.manifest = self.manifest.with_changes(**changes)
        with replacing(self.folder / MANIFEST) as file:
            write_text(file, to_text(self.manifest))

    def remove_left_over_files(self) -> None:
        """Remove ONNX files and sidecars with names of `PLANNED_FILES` that the manifest does not
        list."""
        for spec in PLANNED_FILES.values():
            for path in (self.folder / spec.path, sidecar_path(self.folder / spec.path)):
                if path.relative_to(self.folder).as_posix() not in self.manifest.files_by_name:
                    path.unlink(missing_ok=True)


def _describe_versions(earlier_manifest: Manifest, header: Manifest) -> str:
    """Return the versions of an earlier build that differ from this one's: ``onnxruntime 1.31.0
    (1.32.0 here)``.

    `header` is the manifest of this build.
    """
    differences = [
        f"{name} {version} ({header.tools.get(name, 'none')} here)"
        for name, version in earlier_manifest.tools.items()
        if header.tools.get(name) != version
    ]
    return ", ".join(differences) or "fewer tools"


def read_earlier_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of an earlier build in a folder, or None if there is none.

    **Raises** `BadOutput` if the folder has a `manifest.json` that is not a valid manifest.
    """
    path = folder / MANIFEST
    try:
        return read_manifest(path) if path.exists() else None
    except BadFile as error:
        raise BadOutput(
            f"{path} is no manifest of a build: move it away, or use {parameter('force')}."
        ) from error
