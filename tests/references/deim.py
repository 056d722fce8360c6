"""Custom detectors on DINOv3, saved as DEIMv2 by transformers (5.24), with PyTorch's outputs."""

from pathlib import Path
from typing import Any

import torch

from tests.references.areas import CustomCheckpoint
from tests.references.classifiers import seeded
from tests.references.detection import output_arrays

SETTINGS = {
    "backbone_config": {
        **{"model_type": "dinov3_vit", "hidden_size": 48, "num_hidden_layers": 5},
        **{"num_attention_heads": 3, "intermediate_size": 96, "num_register_tokens": 2},
        **{"patch_size": 16, "out_indices": [2, 4, 5], "reshape_hidden_states": True},
    },
    **{"encoder_hidden_dim": 32, "encoder_in_channels": [32] * 3, "encoder_ffn_dim": 56},
    **{"encoder_attention_heads": 4, "encoder_has_trailing_conv": False, "depth_mult": 0.67},
    **{"hidden_expansion": 0.34, "spatial_tuning_adapter_inplanes": 8, "d_model": 32},
    **{"decoder_in_channels": [32] * 3, "decoder_ffn_dim": 40, "decoder_attention_heads": 8},
    **{"decoder_layers": 3, "decoder_n_points": [3, 6, 3], "num_queries": 9, "max_num_bins": 8},
    **{"decoder_activation_function": "silu", "lqe_hidden_dim": 24},
}
"""Settings of a small DEIMv2."""


def deim(folder: Path, **settings: Any) -> CustomCheckpoint:
    """Save a small DEIMv2 by `save_pretrained`.

    `settings` replace those of `SETTINGS`. A `backbone_config` among them is merged into the
    backbone's settings.
    """
    backbone = SETTINGS["backbone_config"] | settings.pop("backbone_config", {})
    model = seeded("Deimv2ForObjectDetection", SETTINGS | settings | {"backbone_config": backbone})
    with torch.no_grad():
        for name, value in model.named_buffers():
            if name.endswith("running_mean"):
                value.add_(0.2 * torch.randn_like(value))
            elif name.endswith("running_var"):
                value.mul_(0.5 + torch.rand_like(value))
    model.save_pretrained(folder)
    outputs = torch.no_grad()(lambda pictures: output_arrays(model(pictures)))
    return CustomCheckpoint(folder, outputs, (64, 96), "deimv2")
