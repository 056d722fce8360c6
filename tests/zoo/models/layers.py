"""Layers of ours with random parameters, and PyTorch's modules with the same ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.random as jr
import numpy as np

from weights import leaf_values

KEY = jr.key(0)

ATOL = 2e-6
"""For outputs of unit size. Measured: 5e-7."""


def perturbed(layer: Any) -> Any:
    """The layer with noise on every parameter, so that no norm or scale is neutral."""
    noise = np.random.default_rng(7)
    return jax.tree.map(lambda x: x + noise.normal(0, 0.3, x.shape).astype(np.float32), layer)


def inputs(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def filled(module: Any, layers: dict[str, Any]) -> Any:
    """A torch module with the values of our layers, by the names of its parts; none is left out."""
    import torch

    values = {
        f"{name}.{leaf}".strip("."): value
        for name, layer in layers.items()
        for leaf, value in leaf_values(layer).items()
    }
    shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
    assert set(values) == set(shapes)
    module.load_state_dict(
        {name: torch.tensor(value).reshape(shapes[name]) for name, value in values.items()}
    )
    return module.eval()


def run(module: Any, *arrays: np.ndarray, **settings: Any) -> Any:
    """What a torch module makes of a batch of one."""
    import torch

    with torch.no_grad():
        return module(*(torch.from_numpy(array[None]) for array in arrays), **settings)[0].numpy()
