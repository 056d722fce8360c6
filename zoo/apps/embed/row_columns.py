"""The columns of a dataset: their types, and their values for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weights.parameters import parameter
from zoo.apps.embed.network import FoundNetwork
from zoo.apps.embed.requests import VECTOR, Dtype, Extra
from zoo.architectures.kinds import architecture_of
from zoo.common.errors import BadRequest
from zoo.images.pictures import ReadPicture, read_picture
from zoo.tasks.answer import best_answers, fit_size, softmax

OUTPUTS = {
    VECTOR: "pooler_output",
    "patches": "last_hidden_state",
    "logits": "logits",
    "best": "logits",
}
"""The output of the network that a column is computed from. `thumbnail` needs none."""

ROW = "key", "source", "stamp", "error", "width", "height", "sha256"
"""The columns of every dataset before the vectors."""

LONGER_SIDE, QUALITY = 128, 80
"""The longer side of a thumbnail in pixels, and the quality of its JPEG."""


@dataclass(frozen=True)
class RowColumns:
    """The columns of a dataset that one network computes.

    `column` is the name of the column of vectors: `vector`, or that of an appended model.
    """

    network: FoundNetwork
    dtype: Dtype
    extra: tuple[str, ...]
    column: str = VECTOR

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of a dataset of this network, in their order."""
        return *ROW, self.column, *self.extra

    @property
    def outputs(self) -> dict[str, str]:
        """The output of the network that each column is computed from."""
        outputs = {name: OUTPUTS[name] for name in self.extra if name in OUTPUTS}
        return {self.column: OUTPUTS[VECTOR]} | outputs

    @cached_property
    def classes(self) -> Sequence[str]:
        """The names of the classes of the network."""
        return self.network.entry.class_names

    @cached_property
    def prefix_tokens(self) -> int:
        """The number of rows of `last_hidden_state` before the patches.

        They are the class and register tokens of a vision transformer, and the mean of the map of a
        ConvNeXt. The number is 0 if there are none.

        **Raises** `BadRequest` if the network does not return the features of one picture: a
        detector or a segmenter, for example.
        """
        config = self.network.entry.config
        if not architecture_of(config).gives_features:
            raise BadRequest(
                f"{self.network.manifest.model} has no tokens: leave out {parameter('extra')} "
                "patches."
            )
        return config.prefix_tokens

    def check(self) -> None:
        """Check that the columns exist and that the network has the outputs for them.

        **Raises** `BadRequest`.
        """
        known = get_args(Extra)
        for name in self.extra:
            if name not in known or self.extra.count(name) > 1:
                raise BadRequest(
                    f"{parameter('extra')} {name} is no column: choose among {', '.join(known)}, "
                    "once."
                )
        for name, output in self.outputs.items():
            shape = self.network.outputs.get(output)
            if shape is None:
                names = ", ".join(self.network.outputs)
                raise BadRequest(
                    f"{parameter('extra')} {name} needs the output {output}, and this has {names}."
                )
            if output == "logits" and shape[1:] != (len(self.classes),):
                raise BadRequest(
                    f"{parameter('extra')} {name} needs a number for each of {len(self.classes)} "
                    f"classes, and {output} is {list(shape)}."
                )
        if "patches" in self.extra:
            _ = self.prefix_tokens

    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        number = pa.float16() if self.dtype == "float16" else pa.float32()
        answers = pa.list_(pa.struct([("label", pa.string()), ("score", pa.float32())]))
        types = dict.fromkeys(ROW, pa.string()) | {"width": pa.int32(), "height": pa.int32()}
        types |= {"patches": pa.list_(number), "best": answers, "thumbnail": pa.binary()}
        for name, output in self.outputs.items():
            if name in (self.column, "logits"):
                types[name] = pa.list_(number, int(self.network.outputs[output][-1]))
        return pa.schema([(name, types[name]) for name in self.names])

    def values(self, outputs: Mapping[str, NDArray[Any]], index: int) -> dict[str, Any]:
        """Return the values of the computed columns for one picture, by column.

        `outputs` are the outputs of the network for a batch, and `index` is the position of the
        picture in it. Vectors, logits and patches are one-dimensional arrays; `best` is a list of
        dicts with `label` and `score`.

        **Raises** `BadRequest` if a number is not finite in the type of the column.
        """
        values = dict[str, Any]()
        for name, output in self.outputs.items():
            numbers = outputs[output][index]
            if name == "best":
                answers = best_answers(softmax(numbers), self.classes)
                values[name] = [answer._asdict() for answer in answers]
                continue
            if name == "patches":
                numbers = numbers[self.prefix_tokens :]
            with np.errstate(over="ignore"):
                values[name] = numbers.ravel().astype(self.dtype)
            if not np.isfinite(values[name]).all():
                raise BadRequest(f"its {name} has numbers that {self.dtype} has not.")
        return values

    def to_table(self, rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> pa.Table:
        """Return rows as an Arrow table. Values that a row lacks are null.

        **Arguments:** `names` are the columns of the table; by default all columns.
        """
        schema = pa.schema([self.schema().field(name) for name in names or self.names])
        # Arrow copies arrays of numpy as a whole only into lists of variable length.
        variable = pa.schema(
            [
                pa.field(column.name, pa.list_(column.type.value_type))
                if isinstance(column.type, pa.FixedSizeListType)
                else column
                for column in schema
            ]
        )
        return pa.Table.from_pylist(rows, variable).cast(schema)


def make_thumbnail(read: ReadPicture, data: bytes) -> bytes:
    """Return a small JPEG of a picture with its own aspect ratio.

    **Arguments:** `read` is the picture as the network gets it, and `data` are the bytes of its
    file, which are decoded again if `read` was reduced to less than a thumbnail.
    """
    from PIL.Image import Resampling

    height, width = small_sides(*read.original_size)
    if read.image.width < width or read.image.height < height:
        read = read_picture(data, "", small_sides)
    file = BytesIO()
    image = read.image.resize((width, height), Resampling.BICUBIC, read.part)
    image.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def small_sides(height: int, width: int) -> tuple[int, int]:
    """Return the (height, width) of the thumbnail of a picture of these sides."""
    if max(height, width) <= LONGER_SIDE:
        return height, width
    return fit_size((height, width), (LONGER_SIDE, LONGER_SIDE))
