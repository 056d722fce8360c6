"""Tensors as text: what the programs here are given and print."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def encode(array: Float32) -> dict[str, Any]:
    """`{dims, data}` with the numbers in base64."""
    array = np.ascontiguousarray(array)
    assert array.dtype == np.float32
    return {"dims": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def encode_all(arrays: dict[str, Float32]) -> dict[str, Any]:
    """The same of every output of a network."""
    return {name: encode(array) for name, array in arrays.items()}


def decode(tensor: dict[str, Any]) -> Float32:
    """The inverse of `encode`."""
    numbers = np.frombuffer(base64.b64decode(tensor["data"]), np.float32)
    return numbers.reshape(tensor["dims"])


def decode_all(tensors: dict[str, Any]) -> dict[str, Float32]:
    """The inverse of `encode_all`."""
    return {name: decode(tensor) for name, tensor in tensors.items()}
