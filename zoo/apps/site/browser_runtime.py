"""What the pages run models with: files of packages of npm, each the very one of its digest."""

import shutil
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from converter.opsets import WEB_RELEASE
from weights.files import sha256
from weights.opening import read_at_most
from weights.parameters import parameter
from weights.progress import Progress
from zoo.common.errors import BadFile, MissingLibrary, first_line
from zoo.common.processes import run_program

LARGEST_RUNTIME = 256 << 20
"""Bytes of the archive, and of a file in it."""


@dataclass(frozen=True)
class NpmPackage:
    """A package, the option that names it where npm is not to be asked, and the digests of the
    files that are taken from its `dist`."""

    name: str
    version: str
    option: str
    files: Mapping[str, str]

    @property
    def asked(self) -> str:
        """Name that npm has for it."""
        return f"{self.name}@{self.version}"

    @property
    def archive(self) -> str:
        """How npm calls the file that it downloads."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"

    @property
    def advice(self) -> str:
        """How to do without npm here."""
        name = parameter(self.option)
        return f"get it with `npm pack {self.asked}` and name the archive with {name}"


ONNXRUNTIME_WEB = NpmPackage(
    "onnxruntime-web",
    WEB_RELEASE,
    "runtime",
    {
        "ort.wasm.bundle.min.mjs": (
            "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90"
        ),
        "ort-wasm-simd-threaded.wasm": (
            "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"
        ),
    },
)
"""Runs models."""

TOKENIZERS_JS = NpmPackage(
    "@huggingface/tokenizers",
    "0.2.0",
    "tokenizers",
    {"tokenizers.min.mjs": "258e46332101335ce8d95aed7745b19ac3b46d37f3e159a89cf894c2ea9b1d3a"},
)
"""Makes numbers of texts, for models that take them."""


def put_package(
    package: NpmPackage, folder: Path | None, place: Path, workshop: Path, progress: Progress
) -> None:
    """Put the files of a package into a folder, which is made.

    **Arguments:** `given` is the package, unpacked or as npm's archive; where it is None, npm is
    asked for it, and downloads to `workshop`.

    **Raises** `BadFile` if it is not this version, `MissingLibrary` without npm.
    """
    place.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        _take(package, folder or _ask_npm(package, workshop, progress), place)
    for name, digest in package.files.items():
        if not (place / name).is_file() or sha256(place / name) != digest:
            raise BadFile(
                f"{folder or 'what npm gave'} is not {package.name} {package.version} ({name} is "
                f"missing or another one): {package.advice}."
            )


def _take(package: NpmPackage, source: Path, place: Path) -> None:
    """Copy the files from a folder, or out of an archive."""
    if source.is_dir():
        for name in package.files:
            (place / name).write_bytes(read_at_most(source / "dist" / name, LARGEST_RUNTIME))
        return
    try:
        archived = BytesIO(read_at_most(source, LARGEST_RUNTIME))
        with tarfile.open(fileobj=archived) as archive:
            for name in package.files:
                if member := archive.extractfile(f"package/dist/{name}"):
                    (place / name).write_bytes(member.read(LARGEST_RUNTIME))
    except (tarfile.TarError, KeyError, EOFError) as error:
        trouble = first_line(error)
        raise BadFile(
            f"{source} is no archive of {package.name} ({trouble}): {package.advice}."
        ) from error


def _ask_npm(package: NpmPackage, workshop: Path, progress: Progress) -> Path:
    """The archive as npm downloads it, or has it in its own cache."""
    npm = shutil.which("npm")
    if npm is None:
        raise MissingLibrary(
            f"the pages need {package.name} {package.version}, and there is no npm here to fetch "
            f"it: on a machine that has npm, {package.advice}."
        )
    progress.stage(f"fetching {package.name} with npm")
    command = [npm, "pack", "--loglevel=error", "--ignore-scripts", "--prefer-offline"]
    where = ("--pack-destination", str(workshop.absolute()))
    done = run_program([*command, *where, package.asked], workshop)
    archive = workshop / package.archive
    if done.returncode or not archive.is_file():
        # A code and what it means come first, advice and the place of a log last.
        said = [line.removeprefix("npm error ") for line in done.stderr.splitlines()[:2]]
        trouble = "; ".join(said) or "no word"
        raise BadFile(f"npm could not fetch {package.name} ({trouble}): {package.advice}.")
    return archive
