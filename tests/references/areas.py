"""Custom segmentation checkpoints, with the outputs that PyTorch computes.

EoMT is saved by transformers. Meta's classifier of patches is a file beside the file of its
backbone.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil

import zoo
from tests.references import segmenter
from tests.references.classifiers import CLASSES, seeded
from tests.references.running import Values, file_state
from tests.seeded import nano, values_of
from tests.synthetic import save_pth
from zoo.architectures.segmentation.segmentation_config import SegmenterConfig

Areas = Callable[[torch.Tensor], Values]


@dataclass(frozen=True)
class CustomCheckpoint:
    """A checkpoint: the path for `--weights`, and a function from pictures to outputs by name.

    `size` is a height and width that the network accepts, and `family` the family that the zoo
    reads.
    """

    path: Path
    outputs: Areas
    size: tuple[int, int]
    family: str


def eomt(folder: Path, masked: tuple[int, int] = (0, 0)) -> CustomCheckpoint:
    """Save a small EoMT by `save_pretrained`, with its image processor.

    In blocks whose entry of `masked` is 1, each query attends only to the patches of its own mask.
    """
    model = seeded("EomtDinov3ForUniversalSegmentation", SETTINGS)
    model.attn_mask_probs.copy_(torch.tensor(masked))
    model.save_pretrained(folder)
    sides = {"shortest_edge": 64, "longest_edge": 64}
    EomtImageProcessorPil(size=sides, do_pad=True).save_pretrained(folder)

    def outputs(pictures: torch.Tensor) -> Values:
        # transformers reads the grid from a setting, which only describes squares.
        model.grid_size = tuple(side // 16 for side in pictures.shape[2:])
        with torch.no_grad():
            result = model(pictures)
        names = ("class_queries_logits", "masks_queries_logits")
        return {name: result[name].numpy() for name in names}

    return CustomCheckpoint(folder, outputs, (64, 96), "eomt")


SETTINGS = {
    **{"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "num_blocks": 2},
    **{"intermediate_size": 80, "num_queries": 7, "image_size": 64, "num_register_tokens": 3},
}
"""Settings of a small EoMT."""


def patches(folder: Path) -> CustomCheckpoint:
    """Save a small classifier of patches.

    The pictures have the size of the learned positions, because transformers' backbone interpolates
    positions by another rule at other sizes.
    """
    config = replace(nano(zoo.info("dinov2_vits14_ade20k_ms").config), classes=len(CLASSES))
    model = write_patches(folder, "dinov2_vits14_ade20k_ms", config)
    outputs = torch.no_grad()(lambda pictures: {"logits": model(pictures).numpy()})
    return CustomCheckpoint(folder, outputs, config.native_size, "dinov2_segmentation")


def write_patches(
    folder: Path, name: str, config: SegmenterConfig | None = None
) -> segmenter.Network:
    """Write a classifier of patches as two files, as Meta publishes it. Return the PyTorch network.

    `config` replaces the configuration of the model `name`. In that case a `config.json` is
    written, because Meta's files do not state the number of heads.
    """
    entry = zoo.info(name)
    config, naming = config or entry.config, entry.namings[0]
    values = values_of(config)
    state = file_state(naming, values)
    head = {key: value for key, value in state.items() if key.startswith("decode_head.")}
    folder.mkdir()
    save_pth(folder / "dinov2_vits14_pretrain.pth", {k: state[k] for k in state if k not in head})
    batch_count = {"decode_head.bn.num_batches_tracked": torch.tensor(7)}
    tensors = {key: torch.from_numpy(value) for key, value in head.items()} | batch_count
    torch.save({"state_dict": tensors}, folder / f"{name}_head.pth")
    if config != entry.config:
        settings = {
            "num_attention_heads": config.backbone.heads,
            "id2label": dict(enumerate(CLASSES)),
        }
        (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return segmenter.Network(config, values)


AREAS: Mapping[str, Callable[[Path], CustomCheckpoint]] = {
    "eomt": eomt,
    "masked eomt": partial(eomt, masked=(1, 1)),
    "eomt masked once": partial(eomt, masked=(1, 0)),
    "patches": patches,
}
"""Functions that save a custom segmentation checkpoint in a folder, by the checkpoint's name."""
