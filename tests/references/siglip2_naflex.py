"""SigLIP 2 NaFlex in transformers: small seeded networks, their folders and their inputs."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.references import running
from tests.references.towers import tokenizer
from tests.seeded import nano, values_of
from weights.namings import huggingface_names
from zoo import info
from zoo.images.photograph import photograph

VISION = nano(info("siglip2_vitb16_naflex").config)
BOTH = nano(info("siglip2_vitb16_naflex_dual").config)

TOKENS = 24
"""Patches of the small networks' pictures, which are more than there are positions."""

PICTURES = (
    photograph().resize((150, 40)),
    photograph().resize((33, 170)),
    photograph().resize((97, 101)),
)
"""A wide, a tall and a nearly square picture, which have different numbers of patches."""

vision = partial(running.by_settings, huggingface_names.SIGLIP2_VIT, VISION, values_of(VISION))
both = partial(running.by_settings, huggingface_names.SIGLIP2_DUAL, BOTH, values_of(BOTH))


def processor(tokens: int = TOKENS) -> Any:
    """Return transformers' image processor for pictures with at most this number of patches."""
    from transformers import Siglip2ImageProcessorPil

    return Siglip2ImageProcessorPil(max_num_patches=tokens)


def run(model: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a model of transformers for these inputs."""
    import torch

    with torch.no_grad():
        output = model(**{name: torch.from_numpy(value) for name, value in feeds.items()})
    return {name: value.numpy() for name, value in output.items() if torch.is_tensor(value)}


def save(folder: Path, model: Any) -> Path:
    """Save a network of transformers with its processor and a tokenizer. Return the folder."""
    model.save_pretrained(folder)
    processor().save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "GemmaTokenizer", "pad_token": "<pad>"}
    config |= {"padding_side": "right", "model_input_names": ["input_ids"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
