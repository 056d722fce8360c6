"""onnxruntime-web, which the pages run models with: two files of a package of npm."""

import shutil
import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from weights.files import sha256
from weights.opening import read_at_most
from weights.progress import Progress
from zoo.errors import BadFile, MissingLibrary, first_line
from zoo.processes import run_program

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"

LARGEST = 256 << 20
"""Bytes of the archive, and of a file in it."""

FILES = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": (
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"
    ),
}
"""Names in the package's `dist`, and digests."""

ADVICE = f"get it with `npm pack {PACKAGE}@{VERSION}` and name the archive with --runtime"


def put_runtime(given: Path | None, place: Path, workshop: Path, progress: Progress) -> None:
    """Put the two files into a new folder.

    **Arguments:** `given` is the package, unpacked or as npm's archive; where it is None, npm is
    asked for it, and downloads to `workshop`.

    **Raises** `BadFile` if it is not this version, `MissingLibrary` without npm.
    """
    place.mkdir()
    with suppress(FileNotFoundError):
        _take(given or _ask_npm(workshop, progress), place)
    for name, digest in FILES.items():
        if not (place / name).is_file() or sha256(place / name) != digest:
            raise BadFile(
                f"{given or 'what npm gave'} is not {PACKAGE} {VERSION} ({name} is missing or "
                f"another one): {ADVICE}."
            )


def _take(package: Path, place: Path) -> None:
    """Copy the files from a folder, or out of an archive."""
    if package.is_dir():
        for name in FILES:
            (place / name).write_bytes(read_at_most(package / "dist" / name, LARGEST))
        return
    try:
        archived = BytesIO(read_at_most(package, LARGEST))
        with tarfile.open(fileobj=archived) as archive:
            for name in FILES:
                if member := archive.extractfile(f"package/dist/{name}"):
                    (place / name).write_bytes(member.read(LARGEST))
    except (tarfile.TarError, KeyError, EOFError) as error:
        told = first_line(error)
        raise BadFile(f"{package} is no archive of {PACKAGE} ({told}): {ADVICE}.") from error


def _ask_npm(workshop: Path, progress: Progress) -> Path:
    """The archive as npm downloads it, or has it in its own cache."""
    npm = shutil.which("npm")
    if npm is None:
        raise MissingLibrary(
            f"the pages need {PACKAGE} {VERSION}, and there is no npm here to fetch it: on a "
            f"machine that has npm, {ADVICE}."
        )
    progress.stage(f"fetching {PACKAGE} with npm")
    command = [npm, "pack", "--loglevel=error", "--ignore-scripts", "--prefer-offline"]
    where = ("--pack-destination", str(workshop.absolute()))
    done = run_program([*command, *where, f"{PACKAGE}@{VERSION}"], workshop)
    found = list(workshop.glob("*.tgz"))
    if done.returncode or not found:
        # A code and what it means come first, advice and the place of a log last.
        said = [line.removeprefix("npm error ") for line in done.stderr.splitlines()[:2]]
        raise BadFile(f"npm could not fetch {PACKAGE} ({'; '.join(said) or 'no word'}): {ADVICE}.")
    return found[0]
