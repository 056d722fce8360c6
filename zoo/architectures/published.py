"""All tables of what is published, in the order in which models are listed."""

from zoo.architectures.convnext import convnext_family
from zoo.architectures.deim import deim_family
from zoo.architectures.depth import depth_anything
from zoo.architectures.detection import rf_detr_family
from zoo.architectures.dual import clip, dinotxt_family, siglip2, tips
from zoo.architectures.families import digits_family, dinov3, eupe
from zoo.architectures.masks import eomt_family
from zoo.architectures.segmenter import dinov2_segmentation
from zoo.architectures.swin import swin_family
from zoo.architectures.vit import deit_family, dinov2, vit5, vit_family

FAMILIES = (
    dinov3,
    dinov2,
    tips,
    siglip2,
    clip,
    eupe,
    convnext_family,
    swin_family,
    vit_family,
    deit_family,
    vit5,
    depth_anything,
    eomt_family,
    rf_detr_family,
    deim_family,
    dinov2_segmentation,
    dinotxt_family,
    digits_family,
)
