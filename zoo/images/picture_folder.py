"""A folder of somebody's own pictures, and batches of them."""

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
    check_begins,
    extensions,
    pictures,
    reduced_picture,
)

MOST_PICTURES = 512
"""Pictures that are taken of a folder: NVIDIA's guide to TensorRT calls 500 enough for a network of
ImageNet."""

APART = 8
"""One picture in so many is held out."""


@dataclass(frozen=True)
class PictureFolder:
    """The pictures that are taken of a folder, in the order of their names; `found` is how many it
    has."""

    folder: Path
    paths: tuple[Path, ...]
    found: int

    @property
    def held_out(self) -> tuple[Path, ...]:
        """Every eighth of them, and at least one."""
        return self.paths[APART - 1 :: APART] or self.paths[-1:]

    @property
    def kept(self) -> tuple[Path, ...]:
        """All others."""
        apart = set(self.held_out)
        return tuple(path for path in self.paths if path not in apart)

    @property
    def digest(self) -> str:
        """The sha256 of what `sha256sum` prints of the pictures: of their bytes and names."""
        lines = (
            f"{sha256(path)}  {path.relative_to(self.folder).as_posix()}" for path in self.paths
        )
        return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def read_picture_folder(folder: Path) -> PictureFolder:
    """The pictures in a folder and in those inside of it, or `MOST_PICTURES`, spread evenly.

    What does not end as a picture does, or is hidden, is passed over. **Raises** `BadRequest` where
    there are fewer than two, or one of them is something else than a picture.
    """
    if not folder.is_dir():
        raise BadRequest(f"calibrate {folder} is no folder: name one that holds pictures.")
    endings, every = extensions(), sorted(folder.rglob("*"))
    readable = [path for path in every if path.suffix.lower() in endings and path.name[0] != "."]
    if len(readable) < 2:
        raise BadRequest(
            f"calibrate {folder} holds {'one picture' if readable else 'no picture'} that can be "
            f"read: give some hundred of the formats {', '.join(PICTURE_FORMATS)}, or two at least."
        )
    taken = min(len(readable), MOST_PICTURES)
    paths = tuple(readable[index * len(readable) // taken] for index in range(taken))
    for path in paths:
        check_begins(path)
    return PictureFolder(folder, paths, len(readable))


def picture_batches(paths: Sequence[Path], batch: int) -> Iterator[list[ReadPicture]]:
    """Yield batches of pictures, read when they are asked for. The last batch is filled up with
    pictures from the beginning."""
    full, again = -(-len(paths) // batch), cycle(paths)
    for _ in range(full):
        yield [*map(reduced_picture, pictures(list(islice(again, batch))))]
