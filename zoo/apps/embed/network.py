"""The network of a dataset: which file it is, what it is fed, and its session.

On a CPU a run has one thread, and as many pictures run beside each other as there are cores: no
thread waits for another one within a run, and no number depends on how many cores there are.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.architectures.inputs import IMAGE, Feeds, PictureInput, find_kinds
from zoo.artifacts.choices import tower_variant
from zoo.artifacts.described_file import DescribedFile
from zoo.artifacts.find import (
    FoundVariant,
    find_or_pull_folder,
    find_variant_in_file,
    find_variant_in_folder,
)
from zoo.artifacts.read import entry_of_manifest, read_folder_manifest
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pictures import ReadPicture
from zoo.images.pixel_values import check_edges
from zoo.images.preprocessing import Preprocessing

if TYPE_CHECKING:
    from zoo.common.runtime import Session

Size = tuple[int, int]  # (height, width)

REDUCING_GAP = 2
"""A picture is made smaller, while it is decoded, to no less than so many times the sides that it
is resized to. Pillow calls this a `reducing_gap`; docs/how-to/embed.md has what it changes."""


@dataclass(frozen=True)
class FoundNetwork(FoundVariant):
    """A variant of a built model that takes pictures."""

    @property
    def digest(self) -> str:
        """The sha256 of its file; of what `sha256sum` prints of them where there are several."""
        digests = {name: self.manifest.files_by_name[name].sha256 for name in self.variant.files}
        if len(digests) == 1:
            return digests[self.variant.file]
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def outputs(self) -> dict[str, tuple[int | str, ...]]:
        """Shapes of the outputs by name."""
        return {each.name: each.shape for each in self.variant.outputs}

    @cached_property
    def settings(self) -> Preprocessing:
        """The preprocessing of pictures."""
        return self.manifest.preprocessing.settings

    @property
    def is_free(self) -> bool:
        """Whether the network is fed pictures of different sizes."""
        return self.fitted((1, 1)) != self.fitted((2, 1))

    def fitted(self, sides: Size) -> Size:
        """(height, width) at which a picture of these sides is fed."""
        if self.manifest.input == "uint8":
            return sides
        return self.manifest.size or self.settings.input_size_for(*sides)

    def least(self, height: int, width: int) -> Size:
        """The sides that a picture has to be decoded at, at least."""
        size, how = self.fitted((height, width)), self.settings
        scaled = self.taken.resized((height, width), how, size)
        return REDUCING_GAP * scaled[0], REDUCING_GAP * scaled[1]

    @cached_property
    def taken(self) -> PictureInput:
        """The input for pictures of the network. **Raises** `BadRequest` for one of texts."""
        pictures = entry_of_manifest(self.manifest).config.pictures
        if pictures is None:
            raise BadRequest(f"{self.path} takes texts: embed pictures with another.")
        return pictures

    def values(self, read: ReadPicture) -> Feeds:
        """Arrays of a picture for the session, by name, each with a batch axis of 1: `pixel_values`
        `[1, 3, H, W]`, or `image` `[1, H, W, 3]` in uint8."""
        how = self.settings
        if self.manifest.input == "uint8":
            check_edges((read.image.height, read.image.width), how)
            return {IMAGE.name: np.asarray(read.image, np.uint8)[None]}
        return self.taken.make([read], how, self.fitted(read.sides))


def find_network(model: str, precision: str, offline: bool = False) -> FoundNetwork:
    """The network in a folder, in a file with its manifest, or of a name, for which a folder is
    downloaded. **Raises** a `ZooError` or `WeightsError`."""
    if model.endswith(".onnx"):
        return _checked(find_variant_in_file(Path(model).absolute()))
    place = find_or_pull_folder(model, precision, offline=offline).absolute()
    manifest = read_folder_manifest(place)
    taken = {each.name for each in manifest.get_variant(precision).inputs}
    # Of a network that compares pictures with texts the tower for pictures.
    takes_texts = "text" in find_kinds(entry_of_manifest(manifest).config.inputs, taken)
    tower = tower_variant("picture", precision)
    variant = find_variant_in_folder(place, tower if takes_texts else precision)
    return _checked(replace(variant, name=precision))


def _checked(variant: FoundVariant) -> FoundNetwork:
    """**Raises** `BadRequest` for a network that gives no vectors of pictures."""
    network = FoundNetwork(**vars(variant))
    taken = [each.name for each in network.variant.inputs]
    if find_kinds(entry_of_manifest(network.manifest).config.inputs, taken) != {"picture"}:
        raise BadRequest(
            f"{network.path} takes {' and '.join(taken)}: embed pictures with another."
        )
    for name, shape in network.outputs.items():
        if name == "pooler_output" and not (len(shape) == 2 and isinstance(shape[1], int)):
            raise BadFile(
                f"the manifest of {network.path} says that {name} is {list(shape)}, which is no "
                "vector for each picture: pull or build the folder again."
            )
    if "pooler_output" not in network.outputs:
        raise BadRequest(
            f"{network.path} gives {', '.join(network.outputs)} and no pooler_output, which is the "
            "vector of a picture: build it with `--output pooler_output`, or take another model."
        )
    return network


class Runner:
    """A session whose runs have one thread each, of which so many go on together."""

    def __init__(self, network: FoundNetwork, session: Session, lanes: int):
        self.found, self.lanes = network, lanes
        self.described = DescribedFile(network.path, network.manifest, network.variant, session)
        self.free = threading.Semaphore(lanes)

    def run(self, values: Sequence[Feeds], names: Sequence[str]) -> Mapping[str, Any]:
        """Outputs of these names for pictures whose arrays are equally large."""
        feeds = {name: np.concatenate([each[name] for each in values]) for name in values[0]}
        with self.free:
            return self.described.run_rows(names, feeds, self.described.manifest_shapes())


def lane_session(path: Path) -> Session:
    """Session that runs a file, on one thread a run. **Raises** `BadFile`."""
    from zoo.common.runtime import ERRORS, NO_SPINNING, open_session

    try:
        return open_session(path, threads=1, settings=NO_SPINNING)
    except ERRORS as error:
        raise BadFile(
            f"{path} does not load ({first_line(error)}): pull or build the folder again."
        ) from error
