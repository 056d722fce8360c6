"""The JavaScript libraries that run models in a page.

They are files of npm packages with known digests.
"""

import shutil
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from weights.files import sha256
from weights.opening import read_at_most
from weights.parameters import parameter
from weights.progress import Progress
from zoo.common.errors import BadFile, MissingLibrary, first_line
from zoo.common.processes import run_program

MAX_PACKAGE_BYTES = 256 << 20
"""The largest size in bytes of an archive, and of a file in it."""


@dataclass(frozen=True)
class NpmPackage:
    """A version of an npm package, and the files of it that a site needs.

    - `name`: the name of the package.
    - `version`: its version.
    - `option`: the name of the parameter with which a user names a copy of the package.
    - `files`: the sha256 of each needed file in the package's folder `dist`, by file name.
    """

    name: str
    version: str
    option: str
    files: Mapping[str, str]

    @property
    def advice(self) -> str:
        """A sentence about what a user can do if npm cannot download the package."""
        name = parameter(self.option)
        return f"get it with `npm pack {self.name}@{self.version}` and name the archive with {name}"


TRANSFORMERS_JS = NpmPackage(
    "@huggingface/transformers",
    "4.3.1",
    "transformers",
    {"transformers.min.js": "8d6716d9086f57c30a4bf367dba61b887593573c770c454465e8019b2703e743"},
)
"""Preprocesses pictures and texts, and turns outputs into answers."""

ONNXRUNTIME_WEB = NpmPackage(
    "onnxruntime-web",
    "1.31.0-dev.20260914-8d85527a0",
    "runtime",
    {
        "ort-wasm-simd-threaded.mjs": (
            "c57ca56328877353a575e51bbca6f18450027d6c9bf2307a2cb2c41363b4de9f"
        ),
        "ort-wasm-simd-threaded.wasm": (
            "06ba057753da3847e4c24f02d91ab133455b0817c69a44993a9a53a2146df9e3"
        ),
    },
)
"""Runs ONNX files.

This version is the one that the release of transformers.js above needs. Its build without WebGPU
has half the size.
"""


def write_package(
    package: NpmPackage, copy: Path | None, target: Path, cache: Path, progress: Progress
) -> None:
    """Write the files of an npm package to the folder `target`, which is created.

    **Arguments**

    - `package`: the package.
    - `copy`: a copy of the package, unpacked or as npm's archive. If it is None, npm downloads the
      package.
    - `cache`: the folder for npm's archive.

    **Raises** `BadFile` if the files are not those of the version, or `MissingLibrary` without npm.
    """
    target.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        _copy_files(package, copy or _download(package, cache, progress), target)
    for name, digest in package.files.items():
        if not (target / name).is_file() or sha256(target / name) != digest:
            raise BadFile(
                f"{copy or 'the download of npm'} is not {package.name} {package.version} ({name} "
                f"is missing or differs): {package.advice}."
            )


def _copy_files(package: NpmPackage, source: Path, target: Path) -> None:
    """Copy the files of a package to the folder `target`, which must exist.

    `source` is the folder of the unpacked package, or npm's archive. The files are read from its
    folder `dist`. Digests are not compared.

    **Raises** `BadFile` if the archive cannot be read or lacks a file, and `FileNotFoundError` if
    `source`, `target` or a file of the unpacked package does not exist.
    """
    if source.is_dir():
        for name in package.files:
            (target / name).write_bytes(read_at_most(source / "dist" / name, MAX_PACKAGE_BYTES))
        return
    try:
        archived = BytesIO(read_at_most(source, MAX_PACKAGE_BYTES))
        with tarfile.open(fileobj=archived, mode="r:gz") as archive:
            for name in package.files:
                if member := archive.extractfile(f"package/dist/{name}"):
                    (target / name).write_bytes(member.read(MAX_PACKAGE_BYTES))
    except (tarfile.TarError, KeyError, EOFError) as error:
        reason = first_line(error)
        raise BadFile(
            f"{source} is no archive of {package.name} ({reason}): {package.advice}."
        ) from error


def _download(package: NpmPackage, folder: Path, progress: Progress) -> Path:
    """Download the archive of a package with npm into `folder`, and return its path.

    **Raises** `MissingLibrary` if npm is not installed, or `BadFile` if npm fails.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise MissingLibrary(
            f"the pages need {package.name} {package.version}, and npm is not installed to "
            f"download it: on a machine with npm, {package.advice}."
        )
    progress.stage(f"fetching {package.name} with npm")
    command = [npm, "pack", "--loglevel=error", "--ignore-scripts", "--prefer-offline"]
    target = ("--pack-destination", str(folder.absolute()))
    process = run_program([*command, *target, f"{package.name}@{package.version}"], folder)
    name = package.name.removeprefix("@").replace("/", "-")
    archive = folder / f"{name}-{package.version}.tgz"
    if process.returncode or not archive.is_file():
        # The first lines of the output contain the error code and its description.
        lines = [line.removeprefix("npm error ") for line in process.stderr.splitlines()[:2]]
        reason = "; ".join(lines) or "npm gave no reason"
        raise BadFile(f"npm could not fetch {package.name} ({reason}): {package.advice}.")
    return archive
