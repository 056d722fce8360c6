"""Draw random inputs for a file, with sizes for its open dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.parameters import parameter
from zoo.architectures.inputs import Feeds, TextInput
from zoo.common.errors import BadFile, BadRequest
from zoo.common.runtime import NodeArg

Size = tuple[int, int]  # (height, width)

FLOAT_NAMES = {"float": "float32", "double": "float64", "float16": "float16"}
"""Numpy dtypes of ONNX Runtime's floating-point types."""
TEXT_NAMES = TextInput(vocabulary=2, tokens=1, masked=True).names
"""Names of the inputs that are texts."""
OPEN_TEXT_TOKENS = 77
"""Number of tokens of a text whose length is open, as for CLIP."""
INTEGER_TYPES = {"int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "bool"}


@dataclass(frozen=True)
class TimedInput:
    """An input of a file, with a number for each dimension.

    `values` are the numbers of the input, or None if random numbers will do.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: NDArray[Any] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {'x'.join(map(str, self.shape))}"


def resolve_timed_inputs(
    file: object,
    inputs: Sequence[NodeArg],
    batch: int | None = None,
    size: Size | None = None,
    default_size: Size = (224, 224),
    sample: Feeds | None = None,
) -> list[TimedInput]:
    """Return the inputs of a file with a number for each dimension.

    The first dimension is the batch. Height and width are the last two of four dimensions of
    floats, and the second and third of bytes. The second dimension of a text counts its tokens; an
    open one becomes `OPEN_TEXT_TOKENS`.

    **Arguments:**

    - `file`: the file, for messages.
    - `inputs`: the inputs as ONNX Runtime declares them.
    - `batch`: batch size in place of an open dimension; 1 if it is None.
    - `size`: (height, width) in place of open dimensions; `default_size` if it is None.
    - `default_size`: (height, width) of images without a requested size.
    - `sample`: arrays to run the file on, by input. They and their shapes replace random values,
      and are not compared with `batch`, `size` or the declared shape.

    **Raises** `BadRequest` if the file has another fixed batch or size, or leaves another dimension
    open, and `BadFile` for an input type that no random numbers are drawn for.
    """
    requested = batch, *(size or (None, None))
    arrays = sample or {}
    return [
        TimedInput(
            declared.name,
            arrays[declared.name].dtype.name,
            arrays[declared.name].shape,
            arrays[declared.name],
        )
        if declared.name in arrays
        else TimedInput(
            declared.name,
            _read_dtype(file, declared),
            _fix_shape(file, declared, requested, default_size),
        )
        for declared in inputs
    ]


def _read_dtype(file: object, declared: NodeArg) -> str:
    """Return the numpy dtype of a declared input.

    **Raises** `BadFile`, with `file` in the message, for a type that no random numbers are drawn
    for.
    """
    inner = declared.type.removeprefix("tensor(").removesuffix(")")
    if inner not in FLOAT_NAMES and inner not in INTEGER_TYPES and inner != "uint8":
        raise BadFile(
            f"{file}: {declared.name} is {declared.type}, a type for which no random inputs are "
            "drawn."
        )
    return FLOAT_NAMES.get(inner, inner)


def _fix_shape(
    file: object,
    declared: NodeArg,
    requested: tuple[int | None, int | None, int | None],
    default_size: Size,
) -> tuple[int, ...]:
    """Return the shape of a declared input, with a number for each open dimension.

    `requested` is (batch, height, width), with None for what the user does not request. **Raises**
    `BadRequest` if the input has another fixed size than requested, or an open dimension that is
    none of these.
    """
    # By axis: the requested size, and the default size.
    sizes: dict[int, tuple[int | None, int]] = {0: (requested[0], 1)}
    if declared.name in TEXT_NAMES:
        sizes[1] = (None, OPEN_TEXT_TOKENS)
    if len(declared.shape) == 4:
        first = 1 if "uint8" in declared.type else 2
        sizes |= {first + side: (requested[1 + side], default_size[side]) for side in (0, 1)}
    dims: list[int] = []
    for axis, dim in enumerate(declared.shape):
        requested_size, default = sizes.get(axis, (None, 0))
        if isinstance(dim, int) and requested_size not in (None, dim):
            raise BadRequest(
                f"{file}: {declared.name} {list(declared.shape)} has {dim} where "
                f"{requested_size} was asked for: leave out {parameter('batch')} or "
                f"{parameter('size')}, or name a file with open dimensions."
            )
        dims.append(dim if isinstance(dim, int) else requested_size or default)
        if dims[-1] < 1:
            raise BadRequest(
                f"{file}: {declared.name} {list(declared.shape)} leaves {dim} open, which is "
                "neither batch nor height nor width: fix it in the file."
            )
    return tuple(dims)


def draw_inputs(specs: Sequence[TimedInput]) -> dict[str, NDArray[Any]]:
    """Return an array for each input, by name: the array of its spec, or random numbers from a
    fixed seed.

    Floats are normally distributed, uint8 are any bytes, and other integers are 0 or 1, because
    they may be indices.
    """
    rng = np.random.default_rng(0)
    drawn: dict[str, NDArray[Any]] = {}
    for spec in specs:
        if spec.values is not None:
            drawn[spec.name] = spec.values
        elif spec.dtype in FLOAT_NAMES.values():
            drawn[spec.name] = rng.standard_normal(spec.shape, np.float32).astype(spec.dtype)
        else:
            bound = 256 if spec.dtype == "uint8" else 2
            drawn[spec.name] = rng.integers(0, bound, spec.shape).astype(spec.dtype)
    return drawn
