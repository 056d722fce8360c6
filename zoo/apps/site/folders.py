"""Read the built folders for a site, and check their files before the site is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.folder_check import REBUILD_ADVICE, check_listed_files, find_present_variants
from zoo.artifacts.measured import Speeds
from zoo.artifacts.read import entry_of_manifest, read_folder_manifest
from zoo.artifacts.schema import File, Manifest, Variant
from zoo.common.errors import BadFile, BadRequest
from zoo.common.fields import FOLDER_NAME
from zoo.texts.tokenizer import SETTINGS, WORDS

SERVED_ENDINGS = ("", ".json", ".md", ".onnx", ".onnx_data", ".png", ".safetensors")
"""Endings of the files that a site serves from its own origin.

Pages and scripts are not among them, because a folder may come from others.
"""


@dataclass(frozen=True)
class BuiltFolder:
    """A built or pulled folder, and the files of it that exist.

    - `folder`: the path of the folder.
    - `manifest`: its manifest, which may list files that were not pulled.
    - `entry`: the model that the manifest describes.
    - `variants`: the variants whose files exist, by name.
    - `speeds`: the speeds of the files.
    - `files`: the files that exist.
    - `other_speeds`: the speeds of the same files on other machines.
    """

    folder: Path
    manifest: Manifest
    entry: ModelInfo
    variants: Mapping[str, Variant]
    speeds: Speeds
    files: Sequence[File]
    other_speeds: Sequence[Speeds] = ()

    @property
    def has_tokenizer(self) -> bool:
        """Whether the folder contains the files of a tokenizer."""
        return {WORDS, SETTINGS} <= {file.name for file in self.files}


def read_folders(folders: Sequence[Path], progress: Progress) -> list[BuiltFolder]:
    """Read built folders and check the digests of their files.

    Two folders that have the same ONNX files of a model, measured on different machines, become one
    with the speeds of both.

    **Raises** `BadFile` for a folder that is not complete or was changed, and `BadRequest` for
    other folders of the same model.
    """
    by_name: dict[str, BuiltFolder] = {}
    for folder in folders:
        built = _read_folder(folder, progress)
        name = built.entry.name
        if name not in by_name:
            by_name[name] = built
        elif _is_same_on_other_machine(built, by_name[name]):
            by_name[name] = replace(
                by_name[name], other_speeds=[*by_name[name].other_speeds, built.speeds]
            )
        else:
            raise BadRequest(
                f"{by_name[name].folder} and {folder} are both of {name}, and a site has one page "
                "for each model: leave one out. Two folders of a model are allowed only if they "
                "have the same files, measured on different machines."
            )
    return list(by_name.values())


def _is_same_on_other_machine(built: BuiltFolder, other: BuiltFolder) -> bool:
    """Return whether two folders have the same ONNX files, measured on different machines."""
    machines = {speeds.machine for speeds in (other.speeds, *other.other_speeds)}
    digests = [
        {name: folder.manifest.files_by_name[v.file].sha256 for name, v in folder.variants.items()}
        for folder in (built, other)
    ]
    return digests[0] == digests[1] and built.speeds.machine not in machines


def _is_timed_on(variant: Variant, speeds: Speeds) -> bool:
    """Return whether the inputs of a variant suit the input that was timed.

    The first input must have as many axes as the timed input. Further inputs must be token ids.
    """
    ranks = [len(spec.shape) for spec in variant.inputs]
    return ranks[:1] == [len(speeds.input)] and set(ranks[1:]) <= {2}


def _read_folder(folder: Path, progress: Progress) -> BuiltFolder:
    """Read a built folder and check the digests of its files.

    **Raises** `BadFile` if the folder is not complete, was changed, or has a failed variant, and
    `BadRequest` for a file, or a model that takes texts only.
    """
    if folder.is_file():
        raise BadRequest(
            f"{folder} is a file, and a page shows a folder: run `zoo build` with the model or the "
            "checkpoint. A file that `converter` wrote for a function has no page; `zoo bench` "
            "measures such a file."
        )
    manifest = read_folder_manifest(folder)
    if not manifest.complete or manifest.speeds is None:
        raise BadFile(f"{folder} is not complete: run `zoo build` to its end.")
    variants = manifest.select_variants(find_present_variants(folder, manifest))
    if not variants:
        raise BadFile(f"{folder} has no ONNX file: {REBUILD_ADVICE}.")
    for label, variant in variants.items():
        if not variant.passed:
            raise BadFile(f"variant {label} of {folder} failed its verification: {REBUILD_ADVICE}.")
    if not FOLDER_NAME.fullmatch(manifest.model):
        raise BadFile(f"{folder} is of a model whose name cannot name a folder: {REBUILD_ADVICE}.")
    for label, variant in variants.items():
        if label in manifest.speeds.variants and not _is_timed_on(variant, manifest.speeds):
            raise BadFile(
                f"variant {label} of {folder} takes other inputs than its timing: {REBUILD_ADVICE}."
            )
    files = manifest.select_files(variants)
    unexpected = [
        file.name for file in files if PurePosixPath(file.name).suffix not in SERVED_ENDINGS
    ]
    if unexpected:
        raise BadFile(f"{folder} lists {unexpected[0]}, which no build writes: {REBUILD_ADVICE}.")
    entry = entry_of_manifest(manifest)
    if entry.config.pictures is None:
        raise BadRequest(
            f"{folder} takes texts alone, and the pages of a site show pictures: leave it out."
        )
    checked = check_listed_files(folder, files, progress)
    if not checked.passed:
        raise BadFile(f"{folder} differs from its manifest ({checked.detail}): {REBUILD_ADVICE}.")
    return BuiltFolder(folder, manifest, entry, variants, manifest.speeds, files)
