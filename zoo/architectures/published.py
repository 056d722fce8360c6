"""Published models of all families, in the order in which they are listed."""

from zoo.architectures.convnext import convnext_family
from zoo.architectures.depth import depth_family
from zoo.architectures.detection import detection_family
from zoo.architectures.dual import clip_family, siglip2_family, tips_family
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import digits_family, dinov3_family
from zoo.architectures.segmentation import segmentation_family
from zoo.architectures.swin import swin_family
from zoo.architectures.vit import vit_family

FAMILIES: tuple[tuple[ModelInfo, ...], ...] = (
    dinov3_family.DINOV3_MODELS,
    vit_family.DINOV2_MODELS,
    tips_family.MODELS,
    siglip2_family.MODELS,
    clip_family.MODELS,
    dinov3_family.EUPE_MODELS,
    convnext_family.MODELS,
    swin_family.MODELS,
    vit_family.VIT_MODELS,
    vit_family.DEIT_MODELS,
    vit_family.VIT5_MODELS,
    depth_family.MODELS,
    segmentation_family.EOMT_MODELS,
    detection_family.RF_DETR_MODELS,
    detection_family.DEIM_MODELS,
    segmentation_family.SEGMENTER_MODELS,
    dinov3_family.DINOTXT_MODELS,
    digits_family.MODELS,
)
