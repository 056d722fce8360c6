"""The built folders that a site shows, checked before anything is written."""

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
from zoo.common.fields import OWN_NAME
from zoo.texts.tokenizer import SETTINGS, WORDS

SERVED = ("", ".json", ".md", ".onnx", ".onnx_data", ".png", ".safetensors")
"""Endings of a folder's files, which a browser gets from the site's own origin: no page and no
program is among them."""


@dataclass(frozen=True)
class BuiltFolder:
    """A folder, the model that it holds, and those of its variants and files that are there.

    Of a folder that was pulled this may be a part of what its manifest lists. `elsewhere` is how
    fast the same files were on other machines.
    """

    folder: Path
    manifest: Manifest
    entry: ModelInfo
    variants: Mapping[str, Variant]
    speeds: Speeds
    files: Sequence[File]
    elsewhere: Sequence[Speeds] = ()

    @property
    def has_tokenizer(self) -> bool:
        """Whether texts can be made numbers of."""
        return {WORDS, SETTINGS} <= {file.name for file in self.files}


def read_all(folders: Sequence[Path], progress: Progress) -> list[BuiltFolder]:
    """Every folder, digests compared; one with another's files, measured on another machine, is a
    part of that. **Raises** `BadFile`, `BadRequest` for two of a model that differ."""
    by_name: dict[str, BuiltFolder] = {}
    for folder in folders:
        built = _read(folder, progress)
        name = built.entry.name
        if name not in by_name:
            by_name[name] = built
        elif _is_measured_elsewhere(built, by_name[name]):
            by_name[name] = replace(
                by_name[name], elsewhere=[*by_name[name].elsewhere, built.speeds]
            )
        else:
            raise BadRequest(
                f"{by_name[name].folder} and {folder} are both of {name}, and a site has one page "
                "for each model: leave one out. Only the same files, measured on another machine, "
                "go beside each other."
            )
    return list(by_name.values())


def _is_measured_elsewhere(built: BuiltFolder, other: BuiltFolder) -> bool:
    """Whether a folder has the ONNX files of another, whose speed was measured on machines that
    were others."""
    machines = {each.machine for each in (other.speeds, *other.elsewhere)}
    digests = [
        {name: each.manifest.files_by_name[v.file].sha256 for name, v in each.variants.items()}
        for each in (built, other)
    ]
    return digests[0] == digests[1] and built.speeds.machine not in machines


def _is_timed_on(variant: Variant, speeds: Speeds) -> bool:
    """Whether a variant takes what it was timed on, and texts of so many words beside that."""
    ranks = [len(each.shape) for each in variant.inputs]
    return ranks[:1] == [len(speeds.input)] and set(ranks[1:]) <= {2}


def _read(folder: Path, progress: Progress) -> BuiltFolder:
    if folder.is_file():
        raise BadRequest(
            f"{folder} is a file, and a page shows a folder: `zoo build` makes one of a model or a "
            "checkpoint. What `converter` wrote of a function has no page; `zoo bench` measures "
            "such a file."
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
    if not OWN_NAME.fullmatch(manifest.model):
        raise BadFile(f"{folder} is of a model whose name is that of no folder: {REBUILD_ADVICE}.")
    for label, variant in variants.items():
        if label in manifest.speeds.variants and not _is_timed_on(variant, manifest.speeds):
            raise BadFile(
                f"variant {label} of {folder} takes other inputs than were timed: {REBUILD_ADVICE}."
            )
    files = manifest.select_files(variants)
    odd = [file.name for file in files if PurePosixPath(file.name).suffix not in SERVED]
    if odd:
        raise BadFile(f"{folder} lists {odd[0]}, which no build makes: {REBUILD_ADVICE}.")
    entry = entry_of_manifest(manifest)
    if entry.config.pictures is None:
        raise BadRequest(
            f"{folder} takes texts alone, and the pages of a site ask about pictures: leave it out."
        )
    checked = check_listed_files(folder, files, progress)
    if not checked.passed:
        raise BadFile(
            f"{folder} is not what its manifest says ({checked.detail}): {REBUILD_ADVICE}."
        )
    return BuiltFolder(folder, manifest, entry, variants, manifest.speeds, files)
