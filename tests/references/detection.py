"""Custom detectors with the outputs that PyTorch computes.

They are saved as RF-DETR by transformers (5.24), or as the authors of RF-DETR save it.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.references.areas import CustomCheckpoint
from tests.references.classifiers import seeded

SIDE = 8
"""Pixels along a side of a patch."""

BACKBONE = {
    **{"model_type": "rf_detr_dinov2", "hidden_size": 48, "num_hidden_layers": 5},
    **{"num_attention_heads": 3, "patch_size": SIDE, "image_size": 48, "out_indices": [2, 5]},
}
"""Settings of a small backbone."""
SETTINGS = {
    **{"d_model": 32, "decoder_self_attention_heads": 4, "decoder_cross_attention_heads": 8},
    **{"num_queries": 9, "group_detr": 2, "decoder_layers": 3, "decoder_n_points": 2},
    **{"decoder_ffn_dim": 72, "c2f_num_blocks": 2, "layer_norm_eps": 1e-5},
}
"""Settings of a small RF-DETR without its backbone."""


MASKS = {"intermediate_size": 40, "mask_downsample_ratio": 2}
"""Additional settings of a network that predicts masks."""


def network(windows: int, masks: bool = False, **settings: Any) -> Any:
    """Return a seeded network of transformers in which every parameter affects the output.

    Boxes lie anywhere in the picture. `windows` is the number of windows along a side.
    """
    kind = "RfDetrForInstanceSegmentation" if masks else "RfDetrForObjectDetection"
    defaults = {"backbone_config": BACKBONE | {"num_windows": windows}, **SETTINGS}
    model = seeded(kind, defaults | (MASKS if masks else {}) | settings)
    with torch.no_grad():
        detector = model.model.model if masks else model.model
        detector.reference_point_embed.weight.mul_(0.5)
    return model


def output_arrays(result: Any) -> dict[str, Any]:
    """Return the outputs of transformers' detector, by name."""
    names = ("logits", "pred_boxes", "pred_masks")
    return {name: result[name].numpy() for name in names if name in result}


def rf_detr(
    folder: Path, windows: int = 2, masks: bool = False, **settings: Any
) -> CustomCheckpoint:
    """Save a small RF-DETR by `save_pretrained`."""
    model = network(windows, masks, **settings)
    model.save_pretrained(folder)
    outputs = torch.no_grad()(lambda pictures: output_arrays(model(pictures)))
    return CustomCheckpoint(folder, outputs, (48, 48) if windows > 1 else (40, 56), "rf_detr")


def authors_checkpoint(folder: Path, windows: int = 2, masks: bool = False) -> CustomCheckpoint:
    """Save a small RF-DETR as roboflow/rf-detr does in training: tensors and program arguments."""
    checkpoint = rf_detr(folder / "transformers", windows, masks, layer_norm_eps=1e-6)
    tensors = load_file(checkpoint.path / "model.safetensors")
    args = Namespace(resolution=48, num_classes=2, class_names=["kitten", "dog"])
    torch.save({"model": tensors, "args": args, "epoch": 3}, folder / "checkpoint_best_total.pth")
    return CustomCheckpoint(
        folder / "checkpoint_best_total.pth", checkpoint.outputs, checkpoint.size, checkpoint.family
    )
