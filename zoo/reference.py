"""Other implementations, run on our weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weights.mapping import invert, plan
from zoo import configs
from zoo.checkpoint import Loaded
from zoo.entry import ModelInfo
from zoo.errors import BadRequest


def run_transformers(
    entry: ModelInfo, loaded: Loaded, pixels: NDArray[np.float32]
) -> dict[str, NDArray[np.float32]]:
    """`last_hidden_state` and `pooler_output` of transformers' model, with the given periods."""
    try:
        import torch
        from transformers import DINOv3ViTConfig, DINOv3ViTModel
    except ModuleNotFoundError as error:
        raise BadRequest(
            "--reference transformers needs PyTorch and transformers: "
            'run `pip install "jax-onnx-zoo[torch]" transformers`.'
        ) from error
    config, values = loaded.config, loaded.weights.arrays
    leaves = values.tensors
    shapes = {name: leaf.shape for name, leaf in leaves.items()}
    state = {
        out.source.key.replace("layer.", "model.layer.", 1): torch.from_numpy(
            np.array(out.tensor.read())
        )
        for out in invert(plan(entry.naming("huggingface").rules, shapes), leaves)
    }
    model = DINOv3ViTModel(DINOv3ViTConfig(**configs.huggingface(config, key_bias=True)))
    model.train(False)
    model.load_state_dict(state)
    periods = torch.from_numpy(np.array(values["local_pos_embed.periods"]))
    model.rope_embeddings.inv_freq = 1 / periods
    with torch.no_grad():
        result = model(torch.from_numpy(pixels))
    return {
        "last_hidden_state": result.last_hidden_state.numpy(),
        "pooler_output": result.pooler_output.numpy(),
    }
