"""The columns of a dataset: their types, and the values that a network's outputs give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from weights.parameters import parameter
from zoo.apps.embed.embed_call import VECTOR, Dtype, Extra
from zoo.apps.embed.network import FoundNetwork
from zoo.architectures.kinds import architecture_of
from zoo.artifacts.read import entry_of_manifest
from zoo.common.errors import BadRequest
from zoo.images.pictures import ReadPicture, read_picture
from zoo.tasks.answer import best_answers, size_inside, softmax

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN_OUTPUTS = {VECTOR: "pooler_output", "patches": "last_hidden_state", "logits": "logits"}
COLUMN_OUTPUTS |= {"best": "logits"}
"""Outputs that columns are computed from."""

ROW = "key", "source", "stamp", "error", "width", "height", "sha256"
"""Columns of every dataset, besides the vectors."""

LONGER_SIDE, QUALITY = 128, 80
"""Pixels of the longer side, and the quality of the JPEG."""


@dataclass(frozen=True)
class RowColumns:
    """Columns of a dataset, and the values that a network's outputs give them.

    The vectors are in `column`; a name other than `vector` is the column of an appended model.
    """

    found: FoundNetwork
    dtype: Dtype
    extra: tuple[Extra, ...]
    column: str = VECTOR

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in their order."""
        return *ROW, VECTOR, *self.extra

    @property
    def sources(self) -> dict[str, str]:
        """The outputs that columns are made of."""
        named = {self.column: COLUMN_OUTPUTS[VECTOR]}
        return named | {name: COLUMN_OUTPUTS[name] for name in self.extra if name in COLUMN_OUTPUTS}

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of the network that are needed. **Raises** `BadRequest`."""
        for name, output in self.sources.items():
            shape = self.found.outputs.get(output, ())
            if name in ("logits", "best") and shape and shape[1:] != (len(self.classes),):
                raise BadRequest(
                    f"{parameter('extra')} {name} needs a number for each of "
                    f"{len(self.classes)} classes, and {output} is {list(shape)}."
                )
            if output not in self.found.outputs:
                names = ", ".join(self.found.outputs)
                raise BadRequest(
                    f"{parameter('extra')} {name} needs the output {output}, and this has {names}."
                )
        return tuple(dict.fromkeys(self.sources.values()))

    @cached_property
    def classes(self) -> Sequence[str]:
        """Names of the classes."""
        return entry_of_manifest(self.found.manifest).class_names

    @cached_property
    def prefix(self) -> int:
        """Tokens before the patches. **Raises** `BadRequest` for a network without tokens."""
        config = entry_of_manifest(self.found.manifest).config
        if not architecture_of(config).gives_features:
            raise BadRequest(
                f"{self.found.manifest.model} has no tokens: leave out {parameter('extra')} "
                "patches."
            )
        return config.prefix_tokens

    def check(self) -> None:
        """**Raises** `BadRequest` where the network lacks what a column is made of."""
        read_extra(self.extra)
        if self.outputs and "patches" in self.extra:
            _ = self.prefix

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self.found.outputs["pooler_output"][-1])

    def schema(self) -> pa.Schema:
        """The types of the columns."""
        import pyarrow as pa

        number = pa.float16() if self.dtype == "float16" else pa.float32()
        answers = pa.list_(pa.struct([("label", pa.string()), ("score", pa.float32())]))
        kinds = dict.fromkeys(ROW, pa.string()) | {"width": pa.int32(), "height": pa.int32()}
        kinds |= {VECTOR: pa.list_(number, self.dim)}
        kinds |= {"patches": pa.list_(number), "best": answers, "thumbnail": pa.binary()}
        if "logits" in self.extra:
            kinds["logits"] = pa.list_(number, int(self.found.outputs["logits"][-1]))
        return pa.schema([(name, kinds[name]) for name in self.names])

    def vector_field(self) -> pa.Field:
        """The name and type of the column of vectors."""
        return self.schema().field(VECTOR).with_name(self.column)

    def filled(
        self, row: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]], index: int
    ) -> dict[str, Any]:
        """A row with what the network says of one picture of a batch. **Raises** `BadRequest` where
        a number is not finite."""
        columns = dict(row)
        for name, output in self.sources.items():
            own = outputs[output][index]
            if name == "best":
                columns[name] = [
                    each._asdict() for each in best_answers(softmax(own), self.classes)
                ]
            else:
                own = own[self.prefix :] if name == "patches" else own
                columns[name] = self._rounded(own.ravel(), name)
        return columns

    def _rounded(self, numbers: NDArray[Any], name: str) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            kept = numbers.astype(self.dtype)
        if not np.isfinite(kept).all():
            raise BadRequest(f"its {name} has numbers that {self.dtype} has not.")
        return kept

    def table(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Return rows as Arrow has them; values that a row lacks are null."""
        import pyarrow as pa

        schema = self.schema()
        arrays = [self.array([row.get(name) for row in rows], name) for name in schema.names]
        return pa.record_batch(arrays, schema=schema)

    def array(self, values: Sequence[Any], name: str) -> pa.Array:
        """Return the values of a column as Arrow has them."""
        import pyarrow as pa

        field = self.vector_field() if name == self.column else self.schema().field(name)
        if not isinstance(field.type, pa.FixedSizeListType):
            return pa.array(values, field.type)
        zeros = np.zeros(field.type.list_size, self.dtype)
        filled = [zeros if value is None else value for value in values]
        flat = pa.array(np.concatenate(filled), field.type.value_type)
        mask = pa.array([value is None for value in values])
        return pa.FixedSizeListArray.from_arrays(flat, type=field.type, mask=mask)


def read_extra(names: Sequence[str]) -> tuple[Extra, ...]:
    """Names of further columns. **Raises** `BadRequest`."""
    extras = get_args(Extra)
    for name in names:
        if name not in extras or names.count(name) > 1:
            raise BadRequest(
                f"{parameter('extra')} {name} is no column: choose among {', '.join(extras)}, once."
            )
    return tuple(cast(Extra, name) for name in names)


def thumbnail(read: ReadPicture, data: bytes) -> bytes:
    """A small JPEG of a picture, in its own proportions; `data` is the picture's file."""
    from PIL.Image import Resampling

    small = small_sides(*read.sides)
    if any(own < side for own, side in zip(read.image.size, small[::-1], strict=True)):
        # For its network it was made smaller than that.
        read = read_picture(data, "", small_sides)
    file = BytesIO()
    image = read.image.resize(small[::-1], Resampling.BICUBIC, read.part)
    image.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def small_sides(height: int, width: int) -> tuple[int, int]:
    """The sides of a thumbnail."""
    if max(height, width) <= LONGER_SIDE:
        return height, width
    return size_inside((height, width), (LONGER_SIDE, LONGER_SIDE))
