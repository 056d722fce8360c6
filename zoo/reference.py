"""Other implementations, run on our weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weights.mapping import invert, plan
from zoo import configs
from zoo.checkpoint import Loaded
from zoo.entry import ConvNeXtConfig, ModelInfo
from zoo.errors import BadRequest

if TYPE_CHECKING:
    import torch


def run_transformers(
    entry: ModelInfo, loaded: Loaded, pixels: NDArray[np.float32]
) -> dict[str, NDArray[np.float32]]:
    """`last_hidden_state` and `pooler_output` of transformers' model, with the given periods."""
    try:
        import torch
        import transformers  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadRequest(
            "--reference transformers needs PyTorch and transformers: "
            'run `pip install "jax-onnx-zoo[torch]" transformers`.'
        ) from error
    is_convnext = isinstance(loaded.config, ConvNeXtConfig)
    model = _convnext(entry, loaded) if is_convnext else _vit(entry, loaded)
    model.train(False)
    with torch.no_grad():
        result = model(torch.from_numpy(pixels))
    return {
        "last_hidden_state": result.last_hidden_state.numpy(),
        "pooler_output": result.pooler_output.numpy(),
    }


def _state(entry: ModelInfo, loaded: Loaded, prefix: str) -> dict[str, torch.Tensor]:
    """The weights as transformers' model has them in memory, where it adds `model.` to `prefix`."""
    import torch

    leaves = loaded.weights.arrays.tensors
    shapes = {name: leaf.shape for name, leaf in leaves.items()}
    return {
        ("model." if out.source.key.startswith(prefix) else "") + out.source.key: torch.from_numpy(
            np.array(out.tensor.read())
        )
        for out in invert(plan(entry.naming("huggingface").rules, shapes), leaves)
    }


def _vit(entry: ModelInfo, loaded: Loaded) -> torch.nn.Module:
    import torch
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    model = DINOv3ViTModel(DINOv3ViTConfig(**configs.huggingface(loaded.config, key_bias=True)))
    model.load_state_dict(_state(entry, loaded, "layer."))
    periods = torch.from_numpy(np.array(loaded.weights.arrays["local_pos_embed.periods"]))
    model.rope_embeddings.inv_freq = 1 / periods
    return model


def _convnext(entry: ModelInfo, loaded: Loaded) -> torch.nn.Module:
    from transformers import DINOv3ConvNextConfig, DINOv3ConvNextModel

    config = configs.huggingface(loaded.config, key_bias=False)
    model = DINOv3ConvNextModel(DINOv3ConvNextConfig(**config))
    model.load_state_dict(_state(entry, loaded, "stages."))
    return model
