"""Compute the tensors of a file in one naming from the leaves of a model."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from weights.files import stored_dtype
from weights.initializers import Float32, Shape
from weights.inverse import invert
from weights.mapping import Naming, plan_leaves
from weights.namings import meta_names
from weights.tensors import LazyTensor
from weights.transforms import zeros

Items: TypeAlias = Mapping[str, LazyTensor]
"""Tensors to write, by key. Their dtypes are those in the file."""


def byte_size(tensor: LazyTensor) -> int:
    """Return the size of a tensor in the file, in bytes."""
    return math.prod(tensor.shape) * stored_dtype(tensor.dtype).itemsize


def tensor_bytes(tensor: LazyTensor) -> memoryview:
    """Return the values of a tensor as the bytes of a file: little-endian, in the dtype of the
    tensor, to which they are rounded."""
    values = np.ascontiguousarray(tensor.read(), stored_dtype(tensor.dtype))
    return values.reshape(-1).view(np.uint8).data


def items_for(naming: Naming, values: Mapping[str, Float32], shapes: Mapping[str, Shape]) -> Items:
    """Return the tensors of a file in this naming by key, computed from the values of a model when
    they are read. Their dtypes are those of Meta's files (`meta_names.published_dtype`).

    The result includes the copies that a complete file contains (`Naming.find_copies`), and zeros
    for the biases of queries, keys and values that Equimo requires. Optional tensors are read at
    once. They are all left out if every one equals its default, and otherwise all written.

    **Arguments:**

    - `naming`: the naming of the file.
    - `values`: the values of the model's leaves by path.
    - `shapes`: the shapes of the model's leaves by path.
    """
    leaves = {
        path: LazyTensor(shape, "float32", partial(values.__getitem__, path))
        for path, shape in shapes.items()
    }
    sources = invert(plan_leaves(naming.rules, shapes), leaves)
    # A reader uses the defaults of optional tensors. Either all or none of them are written,
    # because a model has a bias in every layer or in none.
    has_bias = not all(
        np.array_equal(tensor.read(), source.missing(source.shape))
        for source, tensor in sources.items()
        if source.optional
    )
    tensors = {
        source.key: tensor for source, tensor in sources.items() if has_bias or not source.optional
    }
    tensors |= {copy: tensors[key] for copy, key in naming.find_copies(tensors).items()}
    if naming.name == "equimo" and naming.zero:
        # Equimo 1.x requires a bias of queries, keys and values, so zeros are written.
        for key in [key for key in tensors if key.endswith(".attn.qkv.weight")]:
            shape = tensors[key].shape[:1]
            bias = LazyTensor(shape, "float32", partial(zeros, shape))
            tensors.setdefault(key.removesuffix("weight") + "bias", bias)
    return {
        key: replace(tensor, dtype=meta_names.published_dtype(key))
        for key, tensor in tensors.items()
    }
