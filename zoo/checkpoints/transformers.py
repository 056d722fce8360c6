"""Other implementations, run on our weights."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from weights.load import PERIODS
from weights.parameters import parameter
from weights.progress import Quiet
from weights.writers.items import items_for
from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import interpolated
from zoo.checkpoints.convert import naming_to_write, write_folder
from zoo.checkpoints.load import Loaded, model_shapes
from zoo.checkpoints.settings.huggingface import transformers_kind
from zoo.common.errors import BadRequest, MissingLibrary


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
        import transformers
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            "to compare with transformers, PyTorch and transformers are needed: "
            "run `pip install torch transformers`."
        ) from error
    if loaded.config.takes != ("pixel_values",):
        raise BadRequest(
            f"{entry.name} takes more than images: compute its outputs with another program, and "
            f"name the .npz with {parameter('reference')}."
        )
    config, naming = loaded.config, naming_to_write(entry, "huggingface")
    kind = transformers_kind(config)
    check_positions(config, pixels.shape[2:])
    if kind.square and pixels.shape[2] != pixels.shape[3]:
        raise BadRequest(
            "transformers' class for this network takes square pictures: give a square."
        )
    items = items_for(naming, loaded.weights.arrays, model_shapes(config))
    with TemporaryDirectory() as folder:
        path = Path(folder) / entry.name
        how = entry.preprocessing.at((pixels.shape[2], pixels.shape[3]))
        written = replace(entry, config=config, preprocessing=how)
        write_folder(path, items, written, Quiet())
        model = getattr(transformers, kind.auto).from_pretrained(path)
    model.train(False)
    for place in (PERIODS, f"backbone.{PERIODS}"):
        if place in loaded.weights.arrays:
            periods = torch.from_numpy(np.array(loaded.weights.arrays[place]))
            model.rope_embeddings.inv_freq = 1 / periods
    # Asked to, it takes positions for those of a square, which they need not be.
    is_own = pixels.shape[2:] == config.native
    asked = {"interpolate_pos_encoding": True} if kind.asks and not is_own else {}
    with torch.no_grad():
        result = model(torch.from_numpy(pixels), **asked)
    if kind.answers:
        return {name: result[name].numpy() for name in kind.answers}
    tokens = result.last_hidden_state
    pooled = result.pooler_output if kind.pooled else tokens[:, 0]
    outputs = {"last_hidden_state": tokens.numpy()} if tokens.ndim == 3 else {}
    return outputs | {"pooler_output": pooled.numpy()}


def check_positions(config: Config, size: tuple[int, ...]) -> None:
    """Refuse a size at which transformers' positions are not the network's."""
    side = config.native
    same = interpolated(config, transformers_kind(config).antialias) == config
    if side is not None and not same and tuple(size) != side:
        raise BadRequest(
            "transformers interpolates these positions by another rule than they were trained "
            f"with, so that its outputs are the network's only at {side[0]} x {side[1]}: compute "
            f"them with another program, and name the .npz with {parameter('reference')}."
        )
