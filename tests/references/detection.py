"""Networks of somebody's own that find things, as transformers saves RF-DETR (5.24), and as its
authors do: with the outputs that PyTorch computes."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.references.areas import Own
from tests.references.classifiers import seeded

SIDE = 8
"""Pixels along a side of a patch."""

BACKBONE = {
    **{"model_type": "rf_detr_dinov2", "hidden_size": 48, "num_hidden_layers": 5},
    **{"num_attention_heads": 3, "patch_size": SIDE, "image_size": 48, "out_indices": [2, 5]},
}
SETTINGS = {
    **{"d_model": 32, "decoder_self_attention_heads": 4, "decoder_cross_attention_heads": 8},
    **{"num_queries": 9, "group_detr": 2, "decoder_layers": 3, "decoder_n_points": 2},
    **{"decoder_ffn_dim": 72, "c2f_num_blocks": 2, "layer_norm_eps": 1e-5},
}


MASKS = {"intermediate_size": 40, "mask_downsample_ratio": 2}
"""What is asked of one with masks too."""


def network(windows: int, masks: bool = False, **settings: Any) -> Any:
    """One of transformers', all of whose parameters count, with boxes anywhere."""
    kind = "RfDetrForInstanceSegmentation" if masks else "RfDetrForObjectDetection"
    asked = {"backbone_config": BACKBONE | {"num_windows": windows}, **SETTINGS}
    model = seeded(kind, asked | (MASKS if masks else {}) | settings)
    with torch.no_grad():
        inner = model.model.model if masks else model.model
        inner.reference_point_embed.weight.mul_(0.5)
    return model


def named(found: Any) -> dict[str, Any]:
    """The outputs of one of transformers', by their names."""
    names = ("logits", "pred_boxes", "pred_masks")
    return {name: found[name].numpy() for name in names if name in found}


def rf_detr(folder: Path, windows: int = 2, masks: bool = False, **settings: Any) -> Own:
    """By `save_pretrained`."""
    model = network(windows, masks, **settings)
    model.save_pretrained(folder)
    outputs = torch.no_grad()(lambda pictures: named(model(pictures)))
    return Own(folder, outputs, (48, 48) if windows > 1 else (40, 56), "rf_detr")


def of_authors(folder: Path, windows: int = 2, masks: bool = False) -> Own:
    """As roboflow/rf-detr saves one in training: tensors beside the program's arguments."""
    own = rf_detr(folder / "transformers", windows, masks, layer_norm_eps=1e-6)
    tensors = load_file(own.path / "model.safetensors")
    args = Namespace(resolution=48, num_classes=2, class_names=["kitten", "dog"])
    torch.save({"model": tensors, "args": args, "epoch": 3}, folder / "checkpoint_best_total.pth")
    return Own(folder / "checkpoint_best_total.pth", own.outputs, own.size, own.family)
