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
import transformers
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil

import zoo
from tests.references import areas, classifiers
from weights.progress import Quiet
from zoo.architectures.entry import DATA
from zoo.checkpoints.convert import convert_file
from zoo.checkpoints.settings.huggingface import transformers_config
from zoo.checkpoints.weights_argument import Given

Size = tuple[int, int]

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
    settings: dict[str, Any],
    folder: Path,
    takes: tuple[str, ...] = ("pixel_values",),
    names: tuple[str, ...] = ("logits",),
    asks: tuple[str, ...] = (),
) -> Made:
    """A class of transformers; it is saved in the folder."""
    model = classifiers.seeded(kind, settings)
    model.save_pretrained(folder)
    return Made(folder, ByName(model, takes, names, dict.fromkeys(asks, True)).eval(), names)


class Mean(torch.nn.Module):
    """A linear layer on the mean of the patches."""

    def __init__(self, backbone: Any, head: torch.nn.Linear):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor]:
        patches = self.backbone(pictures).last_hidden_state[:, 5:]
        return (self.head(patches.mean(dim=1)),)


def dinov3(folder: Path) -> Made:
    """A classifier on DINOv3, in timm's layout."""
    own = classifiers.dinov3_by("dinov3_vits16", 0, folder, depth=None)
    backbone, head = own.logits.args[0], own.logits.args[1]
    linear = torch.nn.Linear(384, len(head["bias"]))
    linear.load_state_dict({name: torch.from_numpy(value) for name, value in head.items()})
    return Made(own.path, Mean(backbone, linear).eval(), ("logits",))


class Whole(torch.nn.Module):
    """A module that returns one tensor, as a tuple."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.model(pictures),)


def patches(folder: Path) -> Made:
    """Meta's linear classifier of DINOv2's patches."""
    model = areas.write_patches(folder, "dinov2_vits14_ade20k_linear")
    return Made(folder, Whole(model).eval(), ("logits",))


class SizedByName(ByName):
    """EoMT, whose grid is a setting, of squares, in transformers: here it is that of pictures."""

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        self.model.grid_size = tuple(side // 16 for side in first.shape[2:])
        return super().forward(first, second)


def eomt(folder: Path) -> Made:
    """EoMT on DINOv3."""
    config = zoo.info("eomt_dinov3_coco_panoptic_small_640").config
    settings = transformers_config(config, (), key_bias=True, size=(320, 320))
    names = ("class_queries_logits", "masks_queries_logits")
    model = classifiers.seeded("EomtDinov3ForUniversalSegmentation", unnamed(settings))
    model.attn_mask_probs.zero_()
    model.save_pretrained(folder)
    sides = {"shortest_edge": 320, "longest_edge": 320}
    EomtImageProcessorPil(size=sides, do_pad=True).save_pretrained(folder)
    # Which blocks mask is asked of a tensor, which torch's exporter refuses, and not of numbers.
    shares = model.attn_mask_probs.tolist()
    del model.attn_mask_probs
    model.attn_mask_probs = shares
    return Made(folder, SizedByName(model, ("pixel_values",), names, {}).eval(), names)


def depth() -> dict[str, Any]:
    """The settings of Depth Anything V2, small."""
    config = zoo.info("depth_anything_v2_vits").config
    return unnamed(transformers_config(config, (), key_bias=False))


def unnamed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the names of the class and of its classes, which a class adds itself."""
    added = ("architectures", "model_type", "dtype", "id2label", "label2id")
    return {name: value for name, value in settings.items() if name not in added}


def boxes(name: str, kind: str, folder: Path, masks: bool = False) -> Made:
    """A network that finds things, in full size, its boxes anywhere."""
    entry = zoo.info(name)
    settings = transformers_config(entry.config, (), key_bias=False)
    model = classifiers.seeded(kind, unnamed(settings))
    model.save_pretrained(folder)
    names = ("logits", "pred_boxes", *(("pred_masks",) if masks else ()))
    return Made(folder, ByName(model, ("pixel_values",), names, {}).eval(), names)


def boxes_of_digits(folder: Path) -> Made:
    """The trained network of the package, as transformers' class."""
    entry = zoo.info("boxes_digits")
    convert_file(Given(DATA / entry.checkpoint), folder, entry.name, False, Quiet())
    model = transformers.RfDetrForObjectDetection.from_pretrained(folder).eval()
    names = ("logits", "pred_boxes")
    return Made(folder, ByName(model, ("pixel_values",), names, {}).eval(), names)


CLASSES = "image-classification"
INTERPOLATES = ("interpolate_pos_encoding",)
DUAL = {"text_config": TEXT, "vision_config": VISION}
BOTH = ("pixel_values", "input_ids")
SIZES_OF_14 = ((224, 168), (154, 252))
ON_VISION = {"vision_config": VISION}
VIT = {**SMALL, "image_size": 224, "patch_size": 16, "intermediate_size": 1536}
STAGES = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768]}

REGISTERS = OF_14 | {"num_register_tokens": 4}

NETWORKS = {
    "ViT-S/16, classes": AnswerNetwork(
        partial(of_transformers, "ViTForImageClassification", VIT, asks=INTERPOLATES), task=CLASSES
    ),
    "DINOv2 ViT-S/14, classes": AnswerNetwork(
        partial(of_transformers, "Dinov2ForImageClassification", OF_14),
        others=SIZES_OF_14,
        task=CLASSES,
    ),
    "DINOv2 ViT-S/14 with registers, classes": AnswerNetwork(
        partial(of_transformers, "Dinov2WithRegistersForImageClassification", REGISTERS),
        others=SIZES_OF_14,
        task=CLASSES,
    ),
    "DINOv3 ViT-S/16, classes": AnswerNetwork(dinov3),
    "SigLIP 2 ViT-B/16, classes": AnswerNetwork(
        partial(of_transformers, "SiglipForImageClassification", ON_VISION, asks=INTERPOLATES),
        task=CLASSES,
    ),
    "ConvNeXt V2 tiny, classes": AnswerNetwork(
        partial(of_transformers, "ConvNextV2ForImageClassification", STAGES), task=CLASSES
    ),
    "SigLIP 2 base, texts": AnswerNetwork(
        partial(
            *(of_transformers, "SiglipTextModel", TEXT),
            takes=("input_ids",),
            names=("pooler_output",),
        ),
        others=(),
        takes=("input_ids",),
        task="feature-extraction",
    ),
    "SigLIP 2 ViT-B/16, pictures and texts": AnswerNetwork(
        partial(
            *(of_transformers, "SiglipModel", DUAL),
            takes=BOTH,
            names=("logits_per_image", "text_embeds", "image_embeds"),
            asks=INTERPOLATES,
        ),
        takes=BOTH,
        task="zero-shot-image-classification",
    ),
    "Depth Anything V2 small": AnswerNetwork(
        partial(
            of_transformers, "DepthAnythingForDepthEstimation", depth(), names=("predicted_depth",)
        ),
        others=SIZES_OF_14,
        task="depth-estimation",
    ),
    "EoMT small on DINOv3": AnswerNetwork(
        eomt, size=(320, 320), others=((320, 256), (192, 320)), task="image-segmentation"
    ),
    # transformers mixes up the windows of what is no square.
    "RF-DETR of digits": AnswerNetwork(
        boxes_of_digits,
        size=(64, 64),
        others=((96, 96),),
        task="object-detection",
        ranks=True,
    ),
    "RF-DETR nano": AnswerNetwork(
        partial(boxes, "rf_detr_nano", "RfDetrForObjectDetection"),
        size=(384, 384),
        others=((512, 512),),
        task="object-detection",
        ranks=True,
    ),
    "RF-DETR nano with masks": AnswerNetwork(
        partial(boxes, "rf_detr_seg_nano", "RfDetrForInstanceSegmentation", masks=True),
        size=(312, 312),
        others=((384, 384),),
        ranks=True,
    ),
    "DEIMv2 small on DINOv3": AnswerNetwork(
        partial(boxes, "deimv2_s", "Deimv2ForObjectDetection"),
        size=(320, 320),
        others=((256, 384),),
        task="object-detection",
        ranks=True,
    ),
    "DINOv2 ViT-S/14, classes of patches": AnswerNetwork(patches, size=(518, 518), others=()),
}
"""By what a page calls them."""
