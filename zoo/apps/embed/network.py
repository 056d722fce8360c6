"""The network of a dataset: its file, its feeds and its session.

On a CPU a run of the network has one thread, and there are as many runs at the same time as cores.
No thread waits for another one within a run, and no number depends on how many cores there are.
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

from zoo.architectures.entry import ModelInfo
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
"""A picture is reduced while it is decoded, to no less than this multiple of the sides that it is
resized to. Pillow calls this a `reducing_gap`; docs/how-to/embed.md has its effect on vectors."""


@dataclass(frozen=True)
class FoundNetwork(FoundVariant):
    """A variant of a built model that computes vectors of pictures."""

    @cached_property
    def entry(self) -> ModelInfo:
        """The entry of the model that the manifest describes."""
        return entry_of_manifest(self.manifest)

    @property
    def digest(self) -> str:
        """The sha256 of its file. If it has several files, the sha256 of `sha256sum`'s output."""
        digests = {name: self.manifest.files_by_name[name].sha256 for name in self.variant.files}
        if len(digests) == 1:
            return digests[self.variant.file]
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    @cached_property
    def outputs(self) -> dict[str, tuple[int | str, ...]]:
        """The shapes of the outputs by name."""
        return {output.name: output.shape for output in self.variant.outputs}

    @property
    def dim(self) -> int:
        """The number of elements of a vector."""
        return int(self.outputs["pooler_output"][-1])

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """The preprocessing of pictures."""
        return self.manifest.preprocessing.settings

    @property
    def size(self) -> Size | None:
        """The (height, width) of all resized pictures; None if it depends on the picture."""
        is_free = self.fitted_sides((1, 1)) != self.fitted_sides((2, 1))
        return self.manifest.size or (None if is_free else self.preprocessing.size)

    @cached_property
    def picture_input(self) -> PictureInput:
        """The input for pictures. **Raises** `BadRequest` if the network takes texts."""
        pictures = self.entry.config.pictures
        if pictures is None:
            raise BadRequest(f"{self.path} takes texts: embed pictures with another.")
        return pictures

    def fitted_sides(self, sides: Size) -> Size:
        """Return the (height, width) that a picture of these sides is resized to.

        It is `sides` if the file resizes pictures itself.
        """
        if self.manifest.input == "uint8":
            return sides
        return self.manifest.size or self.preprocessing.input_size_for(*sides)

    def smallest_sides(self, height: int, width: int) -> Size:
        """Return the smallest (height, width) to which decoding may reduce a picture.

        It is `REDUCING_GAP` times the size that a picture of these sides is resized to.
        """
        size = self.fitted_sides((height, width))
        resized = self.picture_input.resized((height, width), self.preprocessing, size)
        return REDUCING_GAP * resized[0], REDUCING_GAP * resized[1]

    def make_feeds(self, read: ReadPicture) -> Feeds:
        """Return the input arrays of one picture by name, each with a batch axis of 1.

        They are `image` `[1, H, W, 3]` in uint8, or `pixel_values` `[1, 3, H, W]` and the other
        arrays that the network takes. **Raises** `BadRequest` for a picture that is too long.
        """
        if self.manifest.input == "uint8":
            check_edges((read.image.height, read.image.width), self.preprocessing)
            return {IMAGE.name: np.asarray(read.image, np.uint8)[None]}
        sides = self.fitted_sides(read.original_size)
        return self.picture_input.make([read], self.preprocessing, sides)


def find_network(model: str, precision: str, offline: bool = False) -> FoundNetwork:
    """Return the network of a model for pictures.

    **Arguments:** `model` is a folder, an ONNX file with its manifest, or the name of a model, for
    which a folder is downloaded unless `offline`. `precision` is the name of a variant; of a model
    with two towers its tower for pictures is taken, and the `name` of the result is still
    `precision`. It is ignored for an ONNX file. **Raises** a `ZooError` or `WeightsError`.
    """
    if model.endswith(".onnx"):
        return _check_network(find_variant_in_file(Path(model).absolute()))
    folder = find_or_pull_folder(model, precision, offline=offline).absolute()
    manifest = read_folder_manifest(folder)
    inputs = {tensor.name for tensor in manifest.get_variant(precision).inputs}
    takes_texts = "text" in find_kinds(entry_of_manifest(manifest).config.inputs, inputs)
    tower = tower_variant("picture", precision)
    variant = find_variant_in_folder(folder, tower if takes_texts else precision)
    return _check_network(replace(variant, name=precision))


def _check_network(variant: FoundVariant) -> FoundNetwork:
    """Return a variant as a network, if it takes pictures alone and gives a vector of each.

    **Raises** `BadRequest` or `BadFile` if it does not.
    """
    network = FoundNetwork(**vars(variant))
    inputs = [tensor.name for tensor in network.variant.inputs]
    if find_kinds(network.entry.config.inputs, inputs) != {"picture"}:
        raise BadRequest(
            f"{network.path} takes {' and '.join(inputs)}: embed pictures with another."
        )
    shape = network.outputs.get("pooler_output")
    if shape is None:
        raise BadRequest(
            f"{network.path} gives {', '.join(network.outputs)} and no pooler_output, which is the "
            "vector of a picture: build it with `--output pooler_output`, or take another model."
        )
    if len(shape) != 2 or not isinstance(shape[1], int):
        raise BadFile(
            f"the manifest of {network.path} says that pooler_output is {list(shape)}, which is no "
            "vector for each picture: pull or build the folder again."
        )
    return network


class Runner:
    """A session that several threads run, at most `lanes` of them at the same time."""

    def __init__(self, network: FoundNetwork, session: Session, lanes: int):
        self.network, self.lanes = network, lanes
        self.file = DescribedFile(network.path, network.manifest, network.variant, session)
        self.semaphore = threading.Semaphore(lanes)

    def run(self, feeds: Sequence[Feeds], outputs: Sequence[str]) -> Mapping[str, Any]:
        """Return outputs by name for a batch of pictures whose arrays have equal shapes.

        `feeds` are the arrays of each picture, with a batch axis of 1. `outputs` are the names of
        the outputs. The call waits while `lanes` runs are in progress.

        **Raises** `BadFile` if the file does not run, or does not match its manifest.
        """
        batch = {name: np.concatenate([arrays[name] for arrays in feeds]) for name in feeds[0]}
        with self.semaphore:
            return self.file.run_rows(outputs, batch, self.file.manifest_shapes())


def lane_session(path: Path) -> Session:
    """Return a session in which a run has one thread. **Raises** `BadFile`."""
    from zoo.common.runtime import ERRORS, NO_SPINNING, open_session

    try:
        return open_session(path, threads=1, settings=NO_SPINNING)
    except ERRORS as error:
        raise BadFile(
            f"{path} does not load ({first_line(error)}): pull or build the folder again."
        ) from error
