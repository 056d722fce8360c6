"""Linear classifiers of DINOv2's patches (Oquab et al., 2023, arXiv:2304.07193), for the classes of
ADE20K and of Pascal VOC 2012.

A classifier is a file of its own beside its backbone's. Those that the paper calls `+ms` take the
last four blocks' patches in place of the last one's; there, several scales of a picture are
averaged as well, which is not a part of the network.

Source: `notebooks/semantic_segmentation.ipynb` of facebookresearch/dinov2.
"""

from weights.namings import mask_names
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.reported import ADE20K, reported
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.architectures.vit import vit_family

# what its name has, the blocks that it reads
HEADS = (("linear", 1), ("ms", 4))

DATASETS = {data: shared.class_names(data) for data in ("ade20k", "voc2012")}


def _model(
    letter: str,
    dimensions: shared.Dimensions,
    body: int,
    results: vit_family.Dinov2Results,
    data: str,
    head: str,
    layers: int,
) -> ModelInfo:
    backbone = shared.patches_of_14(
        *dimensions,
        ffn="swiglu_fused" if letter == "g" else "mlp",
        registers=0,
        positions=vit_family.PLAIN_POSITIONS,
        pool=None,
    )
    names, width = DATASETS[data], layers * backbone.dim
    name = f"dinov2_vit{letter}14_{data}_{head}"
    is_reported = (data, head) == ("ade20k", "ms")
    mean_iou = reported(vit_family.DINOV2_CARD, ADE20K, areas=results.areas) if is_reported else ()
    return ModelInfo(
        name=name,
        family="dinov2_segmentation",
        config=SegmenterConfig(backbone, layers, len(names)),
        namings=(mask_names.SEGMENTER,),
        preprocessing=shared.imagenet(size=(518, 518), multiple=14),
        licence=shared.apache(
            vit_family.DINOV2_SOURCE, f"{vit_family.DINOV2_SOURCE}#pretrained-models"
        ),
        checkpoint=f"{name}_head.pth",
        # A batch norm has four numbers a channel.
        parameters=body + 4 * width + (width + 1) * len(names),
        source=vit_family.DINOV2_SOURCE,
        papers=("2304.07193",),
        labels=names,
        reported=mean_iou,
    )


MODELS = tuple(
    _model(letter, dimensions, body, results, data, head, layers)
    for letter, _, dimensions, body, results in vit_family.DINOV2_VARIANTS
    for data in DATASETS
    for head, layers in HEADS
)
