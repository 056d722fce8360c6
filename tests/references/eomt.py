"""EoMT by transformers."""

import numpy as np
import torch
from transformers import EomtDinov3Config, EomtDinov3ForUniversalSegmentation

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import mask_names
from zoo.architectures.segmentation.segmentation_config import MaskConfig

OUTPUTS = ("class_queries_logits", "masks_queries_logits")


def transformers(config: MaskConfig, values: Values):
    backbone = config.backbone
    settings = EomtDinov3Config(
        **running.common(backbone),
        intermediate_size=backbone.hidden,
        layer_norm_eps=backbone.norm_eps,
        key_bias=True,
        num_queries=config.queries,
        num_blocks=config.query_blocks,
        num_upscale_blocks=config.upscalings,
        num_register_tokens=backbone.registers,
        num_labels=config.classes,
    )
    # transformers' model stores the class weights of its loss, which the zoo's model does not have.
    unread = ("criterion.empty_weight",)
    model_class, names = EomtDinov3ForUniversalSegmentation, mask_names.EOMT
    return running.transformers_model(model_class, settings, names, values, unread)


def by_transformers(config: MaskConfig, values: Values, image) -> Arrays:
    """Run transformers on the grid of the picture.

    Its setting for the grid only describes squares.
    """
    model = transformers(config, values)
    model.grid_size = tuple(side // config.stride for side in image.shape[1:])
    periods = values["backbone.local_pos_embed.periods"]
    model.rope_embeddings.inv_freq = 1 / torch.from_numpy(np.array(periods))
    return running.run_transformers(model, image, names=OUTPUTS)


REFERENCES = {"eomt_dinov3_coco_panoptic_small_640": {"transformers": by_transformers}}
