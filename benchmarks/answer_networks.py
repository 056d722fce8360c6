"""Networks that answer, in full size with seeded weights: a checkpoint, and PyTorch's module.

The modules are transformers', or, for the classifier on DINOv3 and that of DINOv2's patches, a
linear layer on transformers' backbone, for which transformers has no class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil

import zoo
from tests.references import areas, classifiers
from zoo.checkpoints.settings.huggingface import transformers_config

Size = tuple[int, int]
Settings = dict[str, Any]

SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6}
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
LONG, WORDS = 64, 32_000
"""Tokens of a text, and how many there are to choose from: fewer than SigLIP 2's 256,000, whose
table is most of its file and takes no time."""

VISION = BASE | {"image_size": 224, "patch_size": 16, "intermediate_size": 3072}
TEXT = BASE | {
    **{"intermediate_size": 3072, "vocab_size": WORDS, "max_position_embeddings": LONG},
    "projection_size": 768,
}
OF_14 = SMALL | {"image_size": 518, "patch_size": 14}


@dataclass(frozen=True)
class Made:
    """What is given for `--weights`, and PyTorch's module, which returns its outputs by name."""

    path: Path
    module: torch.nn.Module
    names: tuple[str, ...]


@dataclass(frozen=True)
class AnswerNetwork:
    """`size` is that of the pictures of which speed and cosines are measured, `others` are those
    that differences are measured at too; both (height, width). `task` is what Optimum calls it.
    One that `ranks` goes on with the places that are best, of which several may be as good."""

    make: Callable[[Path], Made]
    size: Size = (224, 224)
    others: tuple[Size, ...] = ((224, 160), (160, 256))
    takes: tuple[str, ...] = ("pixel_values",)
    task: str = ""
    ranks: bool = False


class ByName(torch.nn.Module):
    """Plain tensors in place of transformers' record."""

    def __init__(self, model: Any, takes: tuple[str, ...], names: tuple[str, ...], asks: Any):
        super().__init__()
        self.model, self.takes, self.names, self.asks = model, takes, names, asks

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        given = (first,) if second is None else (first, second)
        named = dict(zip(self.takes, given, strict=True))
        found = self.model(**named, **self.asks)
        return tuple(found[name] for name in self.names)


def of_transformers(
    kind: str,
    settings: Settings,
    asks: tuple[str, ...],
    takes: tuple[str, ...],
    names: tuple[str, ...],
    folder: Path,
) -> Made:
    """A class of transformers; it is saved in the folder."""
    model = classifiers.seeded(kind, settings)
    model.save_pretrained(folder)
    return Made(folder, ByName(model, takes, names, dict.fromkeys(asks, True)).eval(), names)


def in_transformers(
    kind: str,
    settings: Settings,
    asks: tuple[str, ...] = (),
    takes: tuple[str, ...] = ("pixel_values",),
    names: tuple[str, ...] = ("logits",),
    **more: Any,
) -> AnswerNetwork:
    """A class of transformers with some settings, which is asked for what takes a flag."""
    make = partial(of_transformers, kind, settings, asks, takes, names)
    return AnswerNetwork(make, takes=takes, **more)


class Called(torch.nn.Module):
    """A function of pictures and modules, as a module of one output."""

    def __init__(self, call: Callable[..., torch.Tensor], *parts: torch.nn.Module):
        super().__init__()
        self.call, self.parts = call, torch.nn.ModuleList(parts)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.call(pictures, *self.parts),)


def of_mean(pictures: torch.Tensor, backbone: Any, head: Any) -> torch.Tensor:
    """A linear layer on the mean of the patches."""
    return head(backbone(pictures).last_hidden_state[:, 5:].mean(dim=1))


def dinov3(folder: Path) -> Made:
    """A classifier on DINOv3, in timm's layout."""
    own = classifiers.dinov3_by("dinov3_vits16", 0, folder, depth=None)
    backbone, head = own.logits.args[0], own.logits.args[1]
    linear = torch.nn.Linear(384, len(head["bias"]))
    linear.load_state_dict({name: torch.from_numpy(value) for name, value in head.items()})
    return Made(own.path, Called(of_mean, backbone, linear).eval(), ("logits",))


def patches(folder: Path) -> Made:
    """Meta's linear classifier of DINOv2's patches."""
    model = areas.write_patches(folder, "dinov2_vits14_ade20k_linear")
    return Made(folder, Called(lambda x, model: model(x), model).eval(), ("logits",))


class SizedByName(ByName):
    """EoMT, whose grid is a setting, of squares, in transformers: here it is that of pictures."""

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        self.model.grid_size = tuple(side // 16 for side in first.shape[2:])
        return super().forward(first, second)


def eomt(folder: Path) -> Made:
    """EoMT on DINOv3."""
    name = "eomt_dinov3_coco_panoptic_small_640"
    settings = settings_of(name, key_bias=True, size=(320, 320))
    names = ("class_queries_logits", "masks_queries_logits")
    model = classifiers.seeded("EomtDinov3ForUniversalSegmentation", settings)
    model.attn_mask_probs.zero_()
    model.save_pretrained(folder)
    sides = {"shortest_edge": 320, "longest_edge": 320}
    EomtImageProcessorPil(size=sides, do_pad=True).save_pretrained(folder)
    # Which blocks mask is asked of a tensor, which torch's exporter refuses, and not of numbers.
    shares = model.attn_mask_probs.tolist()
    del model.attn_mask_probs
    model.attn_mask_probs = shares
    return Made(folder, SizedByName(model, ("pixel_values",), names, {}).eval(), names)


def settings_of(name: str, **more: Any) -> Settings:
    """transformers' for a network of the zoo, without the names of the class and of its classes,
    which a class adds itself."""
    settings = transformers_config(zoo.info(name).config, (), **{"key_bias": False, **more})
    added = ("architectures", "model_type", "dtype", "id2label", "label2id")
    return {name: value for name, value in settings.items() if name not in added}


def finder(
    name: str, kind: str, side: int, other: tuple[int, int], *masks: str, task: str = ""
) -> AnswerNetwork:
    """A network that finds things, in full size, its boxes anywhere."""
    return in_transformers(
        *(kind, settings_of(name)),
        names=("logits", "pred_boxes", *masks),
        size=(side, side),
        others=(other,),
        task=task,
        ranks=True,
    )


CLASSES = "image-classification"
INTERPOLATES = ("interpolate_pos_encoding",)
SIZES_OF_14 = ((224, 168), (154, 252))
VIT = {**SMALL, "image_size": 224, "patch_size": 16, "intermediate_size": 1536}
STAGES = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768]}

DETECTION = "object-detection"

NETWORKS = {
    "ViT-S/16, classes": in_transformers(
        "ViTForImageClassification", VIT, INTERPOLATES, task=CLASSES
    ),
    "DINOv2 ViT-S/14, classes": in_transformers(
        "Dinov2ForImageClassification", OF_14, others=SIZES_OF_14, task=CLASSES
    ),
    "DINOv3 ViT-S/16, classes": AnswerNetwork(dinov3),
    "SigLIP 2 ViT-B/16, classes": in_transformers(
        "SiglipForImageClassification", {"vision_config": VISION}, INTERPOLATES, task=CLASSES
    ),
    "ConvNeXt V2 tiny, classes": in_transformers(
        "ConvNextV2ForImageClassification", STAGES, task=CLASSES
    ),
    "SigLIP 2 base, texts": in_transformers(
        *("SiglipTextModel", TEXT, (), ("input_ids",), ("pooler_output",)),
        others=(),
        task="feature-extraction",
    ),
    "SigLIP 2 ViT-B/16, pictures and texts": in_transformers(
        *("SiglipModel", {"text_config": TEXT, "vision_config": VISION}, INTERPOLATES),
        takes=("pixel_values", "input_ids"),
        names=("logits_per_image", "text_embeds", "image_embeds"),
        task="zero-shot-image-classification",
    ),
    "Depth Anything V2 small": in_transformers(
        *("DepthAnythingForDepthEstimation", settings_of("depth_anything_v2_vits")),
        names=("predicted_depth",),
        others=SIZES_OF_14,
        task="depth-estimation",
    ),
    "EoMT small on DINOv3": AnswerNetwork(
        eomt, size=(320, 320), others=((320, 256), (192, 320)), task="image-segmentation"
    ),
    # transformers mixes up the windows of what is no square.
    "RF-DETR nano": finder(
        "rf_detr_nano", "RfDetrForObjectDetection", 384, (512, 512), task=DETECTION
    ),
    "RF-DETR nano with masks": finder(
        "rf_detr_seg_nano", "RfDetrForInstanceSegmentation", 312, (384, 384), "pred_masks"
    ),
    "DEIMv2 small on DINOv3": finder(
        "deimv2_s", "Deimv2ForObjectDetection", 320, (256, 384), task=DETECTION
    ),
    "DINOv2 ViT-S/14, classes of patches": AnswerNetwork(patches, size=(518, 518), others=()),
}
"""By what a page calls them."""
