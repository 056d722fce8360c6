"""Checkpoint files as lazy tensors."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from weights.distributions import Float32
from weights.errors import MissingPackage, NotACheckpoint, UnsafeCheckpoint, WeightsNotFound
from weights.tensors import LazyTensor

if TYPE_CHECKING:
    import torch

# Training scripts save the network inside one of these, next to the optimiser's state.
WRAPPERS = ("teacher", "model", "state_dict")

# What a damaged archive or a malformed pickle makes torch.load raise, besides UnpicklingError.
DAMAGE = (
    RuntimeError,
    EOFError,
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
)


def read_pth(path: Path) -> dict[str, LazyTensor]:
    """Tensors of a PyTorch checkpoint by key, without wrappers and prefixes.

    Nothing in the file is executed (`weights_only`), and tensors stay on disk until they are
    read (`mmap`).

    **Raises** `WeightsNotFound`, `NotACheckpoint`, `UnsafeCheckpoint`, `MissingPackage`.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise WeightsNotFound(f"{path} {what}: give the path of a checkpoint file.")
    if not zipfile.is_zipfile(path):
        raise NotACheckpoint(
            f"{path} is not a PyTorch checkpoint (no zip archive inside, {path.stat().st_size} "
            "bytes): download it again, or give another path."
        )
    state = unwrap(_torch_load(path))
    return {key: _lazy(value) for key, value in unprefix(state).items()}


def _torch_load(path: Path) -> object:
    try:
        # Imported here because it costs seconds and only this format needs it.
        import torch
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"reading {path.name} needs PyTorch, which is not installed: "
            'run `pip install "jax-onnx-zoo[torch]"`.'
        ) from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise UnsafeCheckpoint(
            f"{path} was refused because it holds more than tensors, and loading it could run "
            "code that it brings along: give a file that holds a state dict only."
        ) from error
    except DAMAGE as error:
        raise NotACheckpoint(
            f"{path} is damaged or not a PyTorch checkpoint ({type(error).__name__}): "
            "download it again, or give another path."
        ) from error


def unwrap(content: object) -> dict[str, object]:
    """The innermost state dict of what a training script saved."""
    while isinstance(content, dict):
        inner = [content[name] for name in WRAPPERS if isinstance(content.get(name), Mapping)]
        if not inner:
            break
        content = inner[0]
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise NotACheckpoint(
            f"the file holds a {type(content).__name__} and no table of named tensors: "
            "give a file that holds a state dict."
        )
    return cast("dict[str, object]", content)


def unprefix(state: dict[str, object]) -> dict[str, object]:
    """Keys without `module.` (data-parallel training) and `backbone.` (training with heads).

    Where some keys lie under `backbone.`, the others are training heads and are left out.
    """
    for prefix in ("module.", "backbone.", "module."):
        inside = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        state = inside or state
    return state


def _lazy(value: object) -> LazyTensor:
    import torch

    if not isinstance(value, torch.Tensor):
        return LazyTensor((), type(value).__name__, _unreadable)
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        return LazyTensor(tuple(value.shape), "not a dense tensor", _unreadable)
    dtype = str(value.dtype).removeprefix("torch.")
    return LazyTensor(tuple(value.shape), dtype, partial(_values, value))


def _values(tensor: torch.Tensor) -> Float32:
    # A view into the mapped file where it is float32 already, a copy otherwise.
    return cast("Float32", tensor.detach().float().numpy())


def _unreadable() -> Float32:
    raise TypeError("not a dense tensor of floats; coverage is checked before anything is read")
