"""Inputs of networks: the names, dtypes and shapes of arrays in files, and the functions that make
these arrays.

A configuration has a `PictureInput`, a `TextInput`, or both. Each of them makes all arrays that the
network takes for one picture or one text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zoo.images.pictures import ReadPicture, to_read_picture
from zoo.images.pixel_values import decoded_pixel_values, resized_size
from zoo.images.preprocessing import Preprocessing
from zoo.tasks.answer import fit_size

if TYPE_CHECKING:
    from zoo.texts.tokenizer import Tokenizer

Size = tuple[int, int]  # (height, width)

Kind = Literal["picture", "text"]

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Arrays by the names of a file's inputs, each with a batch axis."""

BATCH_NAME = "batch_size"
"""Name of the open batch size of a file that takes pictures or texts."""

SEPARATE_BATCH_NAMES: Mapping[Kind, str] = {
    "picture": "image_batch_size",
    "text": "text_batch_size",
}
"""Names of the open batch sizes of a file that takes both, as in Optimum."""

MIN_TEXT_LENGTH = 3
"""Number of tokens of the shortest text in a sample, without padding."""


class InputArray(NamedTuple):
    """An array that a file takes: its name, its dtype, and its shape without the batch axis. A side
    of the shape is a number, or a name if its size may be open in the file."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def read_sides(self, array: NDArray[Any]) -> dict[str, int]:
        """Return the sizes that an array has along its open sides, by the names of the sides, and
        the batch size as "batch". `array` has a batch axis."""
        pairs = zip(self.shape, array.shape[1:], strict=True)
        return {"batch": len(array)} | {name: n for name, n in pairs if isinstance(name, str)}


PIXELS = InputArray("pixel_values", "float32", (3, "height", "width"))
"""A preprocessed picture."""

IMAGE = InputArray("image", "uint8", ("height", "width", 3))
"""A picture in 8 bits, for a file that contains the preprocessing."""


class Input(ABC):
    """Base class of the inputs of a network: all arrays for a picture, or all arrays for a text."""

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
        """Symbolic expressions for the open sides, such as `"14*h"`, by the names of the sides."""

    @abstractmethod
    def fixed_sides(self, size: Size) -> Mapping[str, int]:
        """Return the sides that are fixed, by name, in a file for pictures of this size (height,
        width)."""

    @abstractmethod
    def describe_sizes(self, size: Size | None) -> str:
        """Return a text about the sizes of pictures or texts that a file takes. `size` is the fixed
        (height, width) of the file; None if its sides are open."""

    def shapes(self, size: Size | None) -> tuple[tuple[int | str, ...], ...]:
        """Return the shape of each array, without the batch axis.

        `size` is the (height, width) of pictures in a file of fixed size, whose sides are numbers.
        For None, open sides are symbolic expressions.
        """
        fixed: dict[str, int | str] = {
            **self.open_sides,
            **(self.fixed_sides(size) if size else {}),
        }
        return tuple(
            tuple(fixed[side] if isinstance(side, str) else side for side in array.shape)
            for array in self.arrays
        )

    def read_sides(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Return the batch size, as "batch", and the sizes of the open sides that the arrays in
        `feeds` have, by name. Arrays that are not in the feeds are ignored."""
        sides: dict[str, int] = {}
        for array in self.arrays:
            if array.name in feeds:
                sides |= array.read_sides(feeds[array.name])
        return sides


@dataclass(frozen=True)
class PictureInput(Input):
    """A picture as `pixel_values` [3, height, width]: resized, rescaled and normalised RGB.

    A network that takes pictures in another form has a subclass, which overrides the arrays, their
    sides, and `make`.

    **Arguments:**

    - `stride`: the sides of a picture are multiples of this number of pixels.
    - `crops`: whether the network ignores pixels at the right and bottom edge that do not fill a
      patch. Other networks pad the picture or reject it in JAX, and their files take multiples of
      the stride only.
    """

    stride: int
    crops: bool = True

    kind: ClassVar[Kind] = "picture"

    @property
    def is_plain(self) -> bool:
        """Whether the network takes `pixel_values` and no other array, so that files and web pages
        can compute the input themselves."""
        return self.arrays == (PIXELS,)

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """`pixel_values`, and no other array."""
        return (PIXELS,)

    @property
    def open_sides(self) -> Mapping[str, str]:
        """Height and width as multiples of the stride, such as `{"height": "14*h", "width":
        "14*w"}`."""
        return {"height": f"{self.stride}*h", "width": f"{self.stride}*w"}

    def fixed_sides(self, size: Size) -> Mapping[str, int]:
        """Return the height and the width of a file for pictures of this size."""
        return {"height": size[0], "width": size[1]}

    def describe_sizes(self, size: Size | None) -> str:
        """Return a text about the heights and widths that a file takes. `size` is the fixed
        (height, width) of the file; None if its sides are open."""
        stride = self.stride
        if size is not None:
            return "fixed: ONNX Runtime refuses another height or width"
        if not self.crops:
            return f"any height and width that are multiples of {stride}"
        return (
            f"any height and width from {stride} on; multiples of {stride} are used whole, of "
            "others the rest at the right and bottom edge is ignored"
        )

    def resized(self, sides: Size, preprocessing: Preprocessing, size: Size) -> Size:
        """Return the (height, width) to which a picture is resized before it is cropped or padded
        to `size`.

        **Arguments:**

        - `sides`: the (height, width) of the picture.
        - `size`: the (height, width) that the network takes.
        """
        return (
            fit_size(sides, size)
            if preprocessing.padded
            else resized_size(sides, preprocessing, size)
        )

    def make(
        self, pictures: Sequence[ReadPicture], preprocessing: Preprocessing, size: Size
    ) -> Feeds:
        """Return the network's arrays for some pictures, each of which is preprocessed to `size`
        (height, width)."""
        return {
            PIXELS.name: np.stack(
                [decoded_pixel_values(picture, preprocessing, size) for picture in pictures]
            )
        }

    def sample(self, count: int, preprocessing: Preprocessing, size: Size) -> Feeds:
        """Return the network's arrays for `count` pictures: a photograph and variations of it,
        which are preprocessed to `size` (height, width)."""
        from zoo.images.photograph import photographs

        return self.make(
            [to_read_picture(image) for image in photographs(count)], preprocessing, size
        )


@dataclass(frozen=True)
class TextInput(Input):
    """A text as `input_ids` [tokens], the ids of its tokens.

    **Arguments:**

    - `vocabulary`: the number of different tokens; every id is below it.
    - `tokens`: the largest number of tokens of a text.
    - `any_length`: whether texts may have fewer tokens. Otherwise a shorter text is padded.
    - `masked`: whether the network also takes `attention_mask` [tokens].
    """

    vocabulary: int
    tokens: int
    any_length: bool = False
    masked: bool = False

    kind: ClassVar[Kind] = "text"

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """The ids of tokens, and the mask, which is 1 for tokens and 0 for padding."""
        # The arrays are int32 in JAX. Files have int64, as tokenizers return it.
        shape = ("sequence_length" if self.any_length else self.tokens,)
        mask = (InputArray("attention_mask", "int64", shape),) if self.masked else ()
        return (InputArray("input_ids", "int64", shape), *mask)

    @property
    def open_sides(self) -> Mapping[str, str]:
        """The number of tokens as `"sequence_length"`. It is returned also if the length is
        fixed."""
        return {"sequence_length": "sequence_length"}

    def fixed_sides(self, size: Size) -> Mapping[str, int]:
        """Return no sides, because the size of pictures does not apply to texts."""
        return {}

    def describe_sizes(self, size: Size | None) -> str:
        """Return a text about the number of tokens that a file takes. `size` is not used, because
        it is that of pictures."""
        shorter = "or fewer" if self.any_length else "a shorter one is padded"
        return f"none: a text is {self.tokens} tokens, {shorter}"

    def read_sides(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Return the number of texts as "batch" and their number of tokens as "tokens"; an empty
        dictionary if there are no texts in the feeds."""
        if (ids := feeds.get("input_ids")) is None:
            return {}
        return {"batch": ids.shape[0], "tokens": ids.shape[1]}

    def make(self, tokenizer: Tokenizer, texts: Sequence[str]) -> Feeds:
        """Return the network's arrays for some texts. **Raises** `BadRequest` if `texts` does not
        consist of texts."""
        encoded = tokenizer.encode(texts)
        return {name: encoded[name] for name in self.names}

    def sample(self, count: int, shorter: bool = False) -> Feeds:
        """Return the network's arrays for `count` texts of random tokens and several lengths,
        padded with zeros to the largest number of tokens. They are the same in every call.

        With `shorter`, the arrays have half as many tokens, if the network takes texts of any
        length.
        """
        tokens = self.tokens // (2 if shorter and self.any_length else 1)
        rng = np.random.default_rng(0)
        ids = rng.integers(1, self.vocabulary, (count, tokens))
        lengths = rng.integers(min(MIN_TEXT_LENGTH, tokens), tokens + 1, (count, 1))
        ids = np.where(np.arange(tokens) < lengths, ids, 0)
        mask = {"attention_mask": (ids != 0).astype(np.int64)} if self.masked else {}
        return {"input_ids": ids, **mask}


class NetworkInputs:
    """Base class of configurations with inputs. By default the network takes pictures only."""

    crops: ClassVar[bool] = True
    """Whether pixels that do not fill a patch are ignored, as in `PictureInput`."""

    @property
    def stride(self) -> int:
        """Number, in pixels, that divides the sides of a picture. Subclasses define it."""
        raise NotImplementedError

    @property
    def pictures(self) -> PictureInput | None:
        """The input for pictures; None if the network takes texts only."""
        return PictureInput(self.stride, self.crops)

    @property
    def texts(self) -> TextInput | None:
        """The input for texts; None if the network takes pictures only."""
        return None

    @property
    def inputs(self) -> tuple[Input, ...]:
        """All inputs, in the order in which the network takes them."""
        return tuple(part for part in (self.pictures, self.texts) if part is not None)

    @property
    def takes_only_pixels(self) -> bool:
        """Whether the network takes `pixel_values` [3, height, width] and nothing else."""
        return self.input_names == (PIXELS.name,)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of all arrays that the network takes, in order."""
        return tuple(name for part in self.inputs for name in part.names)


def find_kinds(inputs: Sequence[Input], names: Collection[str]) -> set[Kind]:
    """Return the kinds of inputs that a file has: "picture", "text", or both; empty if it has none
    of these inputs. The input `image` of a file that contains the preprocessing is a picture.

    **Arguments:**

    - `inputs`: the inputs of the network in the file, or of the network that it is a part of.
    - `names`: the names of the file's inputs.
    """
    kinds = {part.kind for part in inputs if not set(part.names).isdisjoint(names)}
    return kinds | ({"picture"} if IMAGE.name in names else set())


def read_feed_sides(inputs: Sequence[Input], feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return the batch size, as "batch", and the sizes of the open sides, by name, of the arrays
    `feeds` that a file is run on.

    The number of tokens of texts is "tokens". For a network that takes pictures and texts, the
    batch size is that of pictures. For a file that contains the preprocessing, the sides are those
    of the picture in 8 bits, and texts are ignored.

    **Arguments:**

    - `inputs`: the inputs of the network in the file.
    - `feeds`: the arrays by the names of the file's inputs.
    """
    if IMAGE.name in feeds:
        return IMAGE.read_sides(feeds[IMAGE.name])
    sides: dict[str, int] = {}
    for part in reversed(inputs):
        sides |= part.read_sides(feeds)
    return sides


def batch_name(inputs: Sequence[Input], kind: Kind) -> str:
    """Return the name of the open batch size in a file: "batch_size", or "image_batch_size" or
    "text_batch_size" if the network takes pictures and texts.

    **Arguments:**

    - `inputs`: all inputs of the network.
    - `kind`: the input whose batch size is named.
    """
    return SEPARATE_BATCH_NAMES[kind] if len(inputs) > 1 else BATCH_NAME
