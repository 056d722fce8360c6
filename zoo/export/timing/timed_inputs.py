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
TEXT_NAMES = TextInput(vocabulary=2, tokens=1, masked=True).names
OPEN_TEXT_TOKENS = 77
"""Number of tokens of a text whose length is open, as for CLIP."""
INTEGER_TYPES = {"int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "bool"}


@dataclass(frozen=True)
class InputSpec:
    """An input with a fixed shape. `values` are given if random values would not do."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: NDArray[Any] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {'x'.join(map(str, self.shape))}"


def fix_input_shapes(
    file: object,
    inputs: Sequence[NodeArg],
    batch: int | None = None,
    size: Size | None = None,
    default_size: Size = (224, 224),
    sample: Feeds | None = None,
) -> list[InputSpec]:
    """Return the inputs of a file with a number for each dimension.

    The first dimension is the batch. Height and width are the last two of four dimensions of
    floats, and the second and third of bytes. The second dimension of a text counts its tokens.

    **Arguments:** `batch` and `size` (height, width) replace open dimensions. Without them the
    batch is 1 and the size is `default_size`. Arrays of `sample` replace random values and their
    shapes. **Raises** `BadRequest` if the file has another batch or size, or leaves another
    dimension open.
    """
    requested = batch, *(size or (None, None))
    arrays = sample or {}
    return [
        InputSpec(
            declared.name,
            arrays[declared.name].dtype.name,
            arrays[declared.name].shape,
            arrays[declared.name],
        )
        if declared.name in arrays
        else InputSpec(
            declared.name, _dtype(file, declared), _shape(file, declared, requested, default_size)
        )
        for declared in inputs
    ]


def _dtype(file: object, declared: NodeArg) -> str:
    """Return the numpy dtype of an input. **Raises** `BadFile` for a type that cannot be drawn."""
    inner = declared.type.removeprefix("tensor(").removesuffix(")")
    if inner not in FLOAT_NAMES and inner not in INTEGER_TYPES and inner != "uint8":
        raise BadFile(
            f"{file}: {declared.name} is {declared.type}, a type for which no random inputs are "
            "drawn."
        )
    return FLOAT_NAMES.get(inner, inner)


def _shape(
    file: object,
    declared: NodeArg,
    requested: tuple[int | None, int | None, int | None],
    default_size: Size,
) -> tuple[int, ...]:
    """Return the shape of an input for a requested batch, height and width."""
    # By axis: the requested size, and the default size.
    sizes: dict[int, tuple[int | None, int]] = {0: (requested[0], 1)}
    if declared.name in TEXT_NAMES:
        sizes[1] = (None, OPEN_TEXT_TOKENS)
    if len(declared.shape) == 4:
        first = 1 if "uint8" in declared.type else 2
        sizes |= {first + side: (requested[1 + side], default_size[side]) for side in (0, 1)}
    dims: list[int] = []
    for axis, dim in enumerate(declared.shape):
        side, default = sizes.get(axis, (None, 0))
        if isinstance(dim, int) and side not in (None, dim):
            raise BadRequest(
                f"{file}: {declared.name} {list(declared.shape)} has {dim} where {side} was asked "
                f"for: leave out {parameter('batch')} or {parameter('size')}, or name a file with "
                "open dimensions."
            )
        dims.append(dim if isinstance(dim, int) else side or default)
        if dims[-1] < 1:
            raise BadRequest(
                f"{file}: {declared.name} {list(declared.shape)} leaves {dim} open, which is "
                "neither batch nor height nor width: fix it in the file."
            )
    return tuple(dims)


def draw_inputs(specs: Sequence[InputSpec]) -> dict[str, NDArray[Any]]:
    """Return random arrays: normally distributed floats, any bytes, or 0 and 1 for integers that
    may be indices."""
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
