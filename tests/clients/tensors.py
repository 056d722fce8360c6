"""Tensors as text, in the requests and answers of the programs in this folder."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def encode(array: Float32) -> dict[str, Any]:
    """Return `{dims, data}` with the numbers in base64."""
    array = np.ascontiguousarray(array)
    assert array.dtype == np.float32
    return {"dims": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def encode_all(arrays: dict[str, Float32]) -> dict[str, Any]:
    """Encode every array of a dictionary."""
    return {name: encode(array) for name, array in arrays.items()}


def decode(tensor: dict[str, Any]) -> Float32:
    """Return the array of `{dims, data}`."""
    numbers = np.frombuffer(base64.b64decode(tensor["data"]), np.float32)
    return numbers.reshape(tensor["dims"])


def decode_all(tensors: dict[str, Any]) -> dict[str, Float32]:
    """Decode every tensor of a dictionary."""
    return {name: decode(tensor) for name, tensor in tensors.items()}
