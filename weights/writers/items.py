"""From one publisher's checkpoint to another's, one tensor at a time."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from weights.files import stored
from weights.initializers import Float32, Shape
from weights.inverse import invert
from weights.mapping import Naming, plan
from weights.namings import meta_names
from weights.tensors import LazyTensor
from weights.transforms import zeros

Items: TypeAlias = Mapping[str, LazyTensor]
"""Tensors to write by their keys; the types are those that they get in the file."""


def byte_size(tensor: LazyTensor) -> int:
    """Bytes in the file."""
    return math.prod(tensor.shape) * stored(tensor.dtype).itemsize


def data(tensor: LazyTensor) -> memoryview:
    """The bytes for the file, little-endian; bfloat16 is rounded to."""
    values = np.ascontiguousarray(tensor.read(), stored(tensor.dtype))
    return values.reshape(-1).view(np.uint8).data


def items_for(naming: Naming, values: Mapping[str, Float32], shapes: Mapping[str, Shape]) -> Items:
    """The tensors of a file that uses `naming`, from the values of a model with these leaves."""
    leaves = {
        path: LazyTensor(shape, "float32", partial(values.__getitem__, path))
        for path, shape in shapes.items()
    }
    sources = invert(plan(naming.rules, shapes), leaves)
    # What a reader would fill in. All or none: a model has a bias in every layer or in no layer.
    needed = not all(
        np.array_equal(tensor.read(), source.missing(source.shape))
        for source, tensor in sources.items()
        if source.optional
    )
    tensors = {s.key: tensor for s, tensor in sources.items() if needed or not s.optional}
    tensors |= {copy: tensors[key] for copy, key in naming.repeated(tensors).items()}
    if naming.name == "equimo" and naming.zero:
        # Equimo 1.x cannot leave out the bias of queries, keys and values: give it zeros.
        for key in [key for key in tensors if key.endswith(".attn.qkv.weight")]:
            shape = tensors[key].shape[:1]
            bias = LazyTensor(shape, "float32", partial(zeros, shape))
            tensors.setdefault(key.removesuffix("weight") + "bias", bias)
    return {key: replace(tensor, dtype=meta_names.dtype(key)) for key, tensor in tensors.items()}
