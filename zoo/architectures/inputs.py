"""Inputs of networks: their names, types and shapes in files, and how arrays are made for them.

A configuration states one `PictureInput` or `TextInput`, or both. Each of them stands for one thing
that a user gives, a picture or a text, and makes all arrays that the network takes of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zoo.images.pictures import ReadPicture, reduced_picture
from zoo.images.pixel_values import decoded_pixel_values, resized_size
from zoo.images.preprocessing import Preprocessing
from zoo.tasks.answer import size_inside

if TYPE_CHECKING:
    from zoo.texts.tokenizer import Tokenizer

Size = tuple[int, int]  # (height, width)

Kind = Literal["picture", "text"]

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Arrays by the names of a file's inputs, each with a batch axis."""

ONE_BATCH = "batch_size"

BATCH_NAMES: Mapping[Kind, str] = {"picture": "image_batch_size", "text": "text_batch_size"}
"""Open batch sizes of a file that takes pictures and texts, as Optimum calls them."""

SHORTEST_TEXT = 3
"""Words of the shortest text of a sample; what follows is padding."""


class InputArray(NamedTuple):
    """An array that a file takes: its name, its type, and its shape without the batch axis.

    Sides that may be open have names.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def sides(self, array: NDArray[Any]) -> dict[str, int]:
        """Return the batch size and the named sides of an array."""
        pairs = zip(self.shape, array.shape[1:], strict=True)
        return {"batch": len(array)} | {name: n for name, n in pairs if isinstance(name, str)}


PIXELS = InputArray("pixel_values", "float32", (3, "height", "width"))
"""A preprocessed picture."""

IMAGE = InputArray("image", "uint8", ("height", "width", 3))
"""A picture in 8 bits, for a file that preprocesses it itself."""


class Input(ABC):
    """Arrays that a network takes of one kind of thing."""

    kind: ClassVar[Kind]

    @property
    @abstractmethod
    def arrays(self) -> tuple[InputArray, ...]:
        """The arrays, in the order in which the network takes them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(array.name for array in self.arrays)

    @property
    @abstractmethod
    def open_sides(self) -> Mapping[str, str]:
        """Symbolic expressions of the sides that are open, by name."""

    @abstractmethod
    def sides(self, size: Size) -> Mapping[str, int]:
        """Return the sides that a file for pictures of a size (height, width) fixes, by name."""

    @abstractmethod
    def size_words(self, size: Size | None) -> str:
        """Return words about the sizes that a file takes, which has a fixed size or None."""

    def shapes(self, size: Size | None) -> tuple[tuple[int | str, ...], ...]:
        """Return the shape of each array without the batch axis, in a file of a size, or with open
        sides."""
        fixed: dict[str, int | str] = {**self.open_sides, **(self.sides(size) if size else {})}
        return tuple(
            tuple(fixed[side] if isinstance(side, str) else side for side in array.shape)
            for array in self.arrays
        )

    def sides_of(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Return the batch size and the named sides of the arrays that are fed."""
        sides: dict[str, int] = {}
        for array in self.arrays:
            if array.name in feeds:
                sides |= array.sides(feeds[array.name])
        return sides


@dataclass(frozen=True)
class PictureInput(Input):
    """A picture as `pixel_values` [3, height, width]: resized, rescaled and normalised RGB.

    `stride` is the number of pixels of which the sides are multiples. A network that `crops`
    ignores pixels at the right and bottom edge that fill no patch; others fill up the patch in JAX
    or refuse the picture, and their files take whole patches alone.

    A network that takes pictures in another form states a subclass of this class, which overrides
    the arrays, their sides, and `make`.
    """

    stride: int
    crops: bool = True

    kind: ClassVar[Kind] = "picture"

    @property
    def is_plain(self) -> bool:
        """Whether it is `pixel_values` alone, which files and web pages can make themselves."""
        return self.arrays == (PIXELS,)

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """The pixels."""
        return (PIXELS,)

    @property
    def open_sides(self) -> Mapping[str, str]:
        """Multiples of the stride."""
        return {"height": f"{self.stride}*h", "width": f"{self.stride}*w"}

    def sides(self, size: Size) -> Mapping[str, int]:
        """Return the height and the width."""
        return {"height": size[0], "width": size[1]}

    def size_words(self, size: Size | None) -> str:
        """Return words about height and width."""
        stride = self.stride
        if size is not None:
            return "fixed: ONNX Runtime refuses another height or width"
        if not self.crops:
            return f"any height and width that are multiples of {stride}"
        return (
            f"any height and width from {stride} on; multiples of {stride} are used whole, of "
            "others the rest at the right and bottom edge is ignored"
        )

    def resized(self, sides: Size, how: Preprocessing, size: Size) -> Size:
        """Return the (height, width) that a picture of these sides is resized to, before a crop."""
        return size_inside(sides, size) if how.padded else resized_size(sides, how, size)

    def make(self, pictures: Sequence[ReadPicture], how: Preprocessing, size: Size) -> Feeds:
        """Return the arrays for some pictures, which the network gets at a size (height, width)."""
        return {PIXELS.name: np.stack([decoded_pixel_values(each, how, size) for each in pictures])}

    def sample(self, count: int, how: Preprocessing, size: Size) -> Feeds:
        """Return the arrays for a photograph and variants of it."""
        from zoo.images.photograph import photographs

        return self.make([reduced_picture(image) for image in photographs(count)], how, size)


@dataclass(frozen=True)
class TextInput(Input):
    """A text as `input_ids` [tokens], the numbers of its words; with a mask if it is `masked`.

    A text has at most so many `tokens` below `vocabulary`. A shorter one is padded, unless it may
    have `any_length`.
    """

    vocabulary: int
    tokens: int
    any_length: bool = False
    masked: bool = False

    kind: ClassVar[Kind] = "text"

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """Numbers of words, and 1 for words and 0 for padding."""
        # In JAX they are int32; files of other projects take what their tokenizers give.
        shape = ("sequence_length" if self.any_length else self.tokens,)
        mask = (InputArray("attention_mask", "int64", shape),) if self.masked else ()
        return (InputArray("input_ids", "int64", shape), *mask)

    @property
    def open_sides(self) -> Mapping[str, str]:
        """The number of words."""
        return {"sequence_length": "sequence_length"}

    def sides(self, size: Size) -> Mapping[str, int]:
        """Return nothing: a text has no size."""
        return {}

    def size_words(self, size: Size | None) -> str:
        """Return words about the length of a text."""
        shorter = "or fewer" if self.any_length else "a shorter one is padded"
        return f"none: a text is {self.tokens} words, {shorter}"

    def sides_of(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Return the number of texts and of tokens."""
        if (ids := feeds.get("input_ids")) is None:
            return {}
        return {"batch": ids.shape[0], "tokens": ids.shape[1]}

    def make(self, tokenizer: Tokenizer, texts: Sequence[str]) -> Feeds:
        """Return the arrays for some texts. **Raises** `BadRequest` for something that is no
        texts."""
        encoded = tokenizer.encode(texts)
        return {name: encoded[name] for name in self.names}

    def sample(self, count: int, shorter: bool = False) -> Feeds:
        """Return texts of random words of several lengths, padded with zeros; with `shorter` of
        half the length where that may be."""
        tokens = self.tokens // (2 if shorter and self.any_length else 1)
        rng = np.random.default_rng(0)
        words = rng.integers(1, self.vocabulary, (count, tokens))
        lengths = rng.integers(min(SHORTEST_TEXT, tokens), tokens + 1, (count, 1))
        ids = np.where(np.arange(tokens) < lengths, words, 0)
        mask = {"attention_mask": (ids != 0).astype(np.int64)} if self.masked else {}
        return {"input_ids": ids, **mask}


class TakesPictures:
    """Inputs of a network that takes pictures alone, and base of those that take texts."""

    crops: ClassVar[bool] = True
    """Whether pixels that fill no patch are ignored, as `PictureInput` says."""

    @property
    def stride(self) -> int:
        """Pixels of which the sides of a picture are multiples."""
        raise NotImplementedError

    @property
    def pictures(self) -> PictureInput | None:
        """The input for pictures; None for a network that takes texts alone."""
        return PictureInput(self.stride, self.crops)

    @property
    def texts(self) -> TextInput | None:
        """The input for texts; None for a network that takes pictures alone."""
        return None

    @property
    def inputs(self) -> tuple[Input, ...]:
        """All inputs, in the order in which the network takes them."""
        return tuple(each for each in (self.pictures, self.texts) if each is not None)

    @property
    def takes_pixels_alone(self) -> bool:
        """Whether the network takes `pixel_values` [3, height, width] and nothing else."""
        return self.takes == (PIXELS.name,)

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of all arrays that the network takes, in its order."""
        return tuple(name for each in self.inputs for name in each.names)


def kinds_of(inputs: Sequence[Input], names: Collection[str]) -> set[Kind]:
    """Return what a file takes that has inputs of these names: pictures, texts, or both.

    **Arguments:** the inputs of the network that the file is of, or of which it is a part.
    """
    kinds = {each.kind for each in inputs if not set(each.names).isdisjoint(names)}
    return kinds | ({"picture"} if IMAGE.name in names else set())


def fed_sides(inputs: Sequence[Input], feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return the batch size and the named sides of what a file is fed; of a network that takes
    pictures and texts the batch size is that of pictures."""
    if IMAGE.name in feeds:
        return IMAGE.sides(feeds[IMAGE.name])
    sides: dict[str, int] = {}
    for each in reversed(inputs):
        sides |= each.sides_of(feeds)
    return sides


def batch_name(inputs: Sequence[Input], kind: Kind) -> str:
    """Return the name of the open batch size of an input, among all inputs of a network."""
    return BATCH_NAMES[kind] if len(inputs) > 1 else ONE_BATCH
