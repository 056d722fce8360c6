"""Other implementations, run on our weights."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from weights.load import PERIODS
from weights.progress import Quiet
from weights.writers.items import items_for
from zoo.architectures.config import Config
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.entry import ModelInfo
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.vit.backbone_config import OnBackbone
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.checkpoints.convert import naming_to_write, write_folder
from zoo.checkpoints.load import Loaded, model_shapes
from zoo.checkpoints.settings.huggingface import transformers_kind
from zoo.errors import BadRequest, MissingLibrary

DEPTHS, MASKS = ("predicted_depth",), ("class_queries_logits", "masks_queries_logits")
"""Outputs of networks on top of others."""


def run_transformers(
    entry: ModelInfo, loaded: Loaded, pixels: NDArray[np.float32]
) -> dict[str, NDArray[np.float32]]:
    """`last_hidden_state` and `pooler_output` of transformers' model, with the given periods, or
    what it answers in their place.

    It loads the folder that `zoo weights convert` writes. Its ConvNeXt classifiers give the last
    map without a norm, which is no output of ours and left out.

    **Raises** `BadRequest` where transformers has no such model, interpolates positions by another
    rule or takes no such pictures, and `MissingLibrary` where it is not installed.
    """
    try:
        import torch
        from transformers import (
            AutoModel,
            AutoModelForDepthEstimation,
            AutoModelForUniversalSegmentation,
        )
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            "to compare with transformers, PyTorch and transformers are needed: "
            "run `pip install torch transformers`."
        ) from error
    if loaded.config.takes != ("pixel_values",):
        raise BadRequest(
            f"{entry.name} takes more than images: compute its outputs with another program, and "
            "name the .npz with --reference."
        )
    config, naming = loaded.config, naming_to_write(entry, "huggingface")
    check_positions(config, pixels.shape[2:])
    if isinstance(config, MaskConfig) and pixels.shape[2] != pixels.shape[3]:
        raise BadRequest(
            "transformers' class for this network takes square pictures: give a square."
        )
    items = items_for(naming, loaded.weights.arrays, model_shapes(config))
    with TemporaryDirectory() as folder:
        path = Path(folder) / entry.name
        how = entry.preprocessing.at((pixels.shape[2], pixels.shape[3]))
        written = replace(entry, config=config, preprocessing=how)
        write_folder(path, items, written, Quiet())
        if isinstance(config, DepthConfig):
            model = AutoModelForDepthEstimation.from_pretrained(path)
        elif isinstance(config, MaskConfig):
            model = AutoModelForUniversalSegmentation.from_pretrained(path)
        else:
            model = AutoModel.from_pretrained(path)
    model.train(False)
    for place in (PERIODS, f"backbone.{PERIODS}"):
        if place in loaded.weights.arrays:
            periods = torch.from_numpy(np.array(loaded.weights.arrays[place]))
            model.rope_embeddings.inv_freq = 1 / periods
    asked = {"interpolate_pos_encoding": True} if transformers_kind(config).asks else {}
    with torch.no_grad():
        result = model(torch.from_numpy(pixels), **asked)
    if isinstance(config, OnBackbone):
        names = DEPTHS if isinstance(config, DepthConfig) else MASKS
        return {name: result[name].numpy() for name in names}
    tokens = result.last_hidden_state
    # ViT's own pooler is none of a classifier's parts.
    is_token = isinstance(config, ViTConfig) and config.pool == "token"
    pooled = tokens[:, 0] if is_token else result.pooler_output
    outputs = {"last_hidden_state": tokens.numpy()} if tokens.ndim == 3 else {}
    return outputs | {"pooler_output": pooled.numpy()}


def check_positions(config: Config, size: tuple[int, ...]) -> None:
    """Refuse a size at which transformers' positions are not the network's."""
    below = config.backbone if isinstance(config, OnBackbone) else config
    positions = below.positions if isinstance(below, ViTConfig) else None
    if positions is None:
        return
    side = positions.grid * config.stride
    same = positions.antialias == transformers_kind(config).antialias and not positions.offset
    if not same and tuple(size) != (side, side):
        raise BadRequest(
            "transformers interpolates these positions by another rule than they were trained "
            f"with, so that its outputs are the network's only at {side} x {side}: compute them "
            "with another program, and name the .npz with --reference."
        )
