"""A folder with a user's pictures, and batches of them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from weights.files import sha256
from zoo.common.errors import BadRequest
from zoo.images.pictures import (
    PICTURE_FORMATS,
    ReadPicture,
    check_picture_header,
    picture_extensions,
    pictures,
    to_read_picture,
)

MAX_PICTURES = 512
"""The largest number of pictures of a folder that are used.

NVIDIA's guide to TensorRT calls 500 enough for a network that was trained on ImageNet.
"""

HELD_OUT_STEP = 8
"""One picture in `HELD_OUT_STEP` is held out."""


@dataclass(frozen=True)
class PictureFolder:
    """Pictures in a user's folder, a part of which is held out for measurements.

    - `folder`: the folder.
    - `paths`: the pictures that are used, sorted by name.
    - `picture_count`: the number of all pictures in the folder.
    """

    folder: Path
    paths: tuple[Path, ...]
    picture_count: int

    @property
    def held_out_paths(self) -> tuple[Path, ...]:
        """Every eighth of the used pictures, or the last one if there are fewer than eight."""
        return self.paths[HELD_OUT_STEP - 1 :: HELD_OUT_STEP] or self.paths[-1:]

    @property
    def calibration_paths(self) -> tuple[Path, ...]:
        """The used pictures that are not held out."""
        held_out = set(self.held_out_paths)
        return tuple(path for path in self.paths if path not in held_out)

    @property
    def digest(self) -> str:
        """The sha256 of the output of `sha256sum` for the used pictures, named relative to
        `folder`.
        """
        lines = (
            f"{sha256(path)}  {path.relative_to(self.folder).as_posix()}" for path in self.paths
        )
        return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def read_picture_folder(folder: Path) -> PictureFolder:
    """Return the pictures of a folder and its subfolders.

    At most `MAX_PICTURES` are used, spread evenly over the sorted names. Hidden files and files
    whose ending is not that of a picture are skipped.

    **Raises** `BadRequest` if `folder` is no folder, if there are fewer than two pictures, or if a
    used file with the ending of a picture is not a picture.
    """
    if not folder.is_dir():
        raise BadRequest(f"calibrate {folder} is no folder: name a folder with pictures.")
    endings, files = picture_extensions(), sorted(folder.rglob("*"))
    readable = [path for path in files if path.suffix.lower() in endings and path.name[0] != "."]
    if len(readable) < 2:
        raise BadRequest(
            f"calibrate {folder} contains {'one picture' if readable else 'no picture'} that can "
            f"be read: put a few hundred pictures there, at least two, in one of the formats "
            f"{', '.join(PICTURE_FORMATS)}."
        )
    count = min(len(readable), MAX_PICTURES)
    paths = tuple(readable[index * len(readable) // count] for index in range(count))
    for path in paths:
        check_picture_header(path)
    return PictureFolder(folder, paths, len(readable))


def picture_batches(paths: Sequence[Path], batch: int) -> Iterator[list[ReadPicture]]:
    """Yield the decoded pictures in batches of `batch`, which are read one batch at a time.

    The last batch is filled up with pictures from the start of `paths`.
    """
    batch_count, repeated = -(-len(paths) // batch), cycle(paths)
    for _ in range(batch_count):
        yield [*map(to_read_picture, pictures(list(islice(repeated, batch))))]
