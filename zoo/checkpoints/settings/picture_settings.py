"""transformers' settings of what is done to pictures."""

from collections.abc import Mapping
from typing import Any

from zoo.architectures.parts.preprocessing import Filter, Preprocessing

RESAMPLE: Mapping[Filter, int] = {"bilinear": 2, "bicubic": 3}
"""What Pillow calls the filters."""


def transformers_processor(how: Preprocessing) -> dict[str, Any]:
    """`preprocessor_config.json` of the image processor that works as `how` says."""
    size: dict[str, Any] = {"height": how.size[0], "width": how.size[1]}
    settings: dict[str, Any] = {
        "do_resize": True,
        "size": size,
        "resample": RESAMPLE[how.resample],
        "do_rescale": True,
        "rescale_factor": how.rescale,
        "do_normalize": True,
        "image_mean": list(how.mean),
        "image_std": list(how.std),
    }
    if how.rescale_first:
        return {"image_processor_type": "DINOv3ViTImageProcessorFast"} | settings
    if how.padded:
        edge = max(how.size)
        square = {"size": {"shortest_edge": edge, "longest_edge": edge}, "do_pad": True}
        return {"image_processor_type": "EomtImageProcessor"} | settings | square
    if how.multiple is not None:
        free = {"keep_aspect_ratio": True, "ensure_multiple_of": how.multiple}
        return {"image_processor_type": "DPTImageProcessor"} | settings | free
    if how.resize is None:
        return {"image_processor_type": "SiglipImageProcessor"} | settings
    cropped: dict[str, Any] = {"do_center_crop": True, "crop_size": size}
    if how.crop_rounding != "floor":
        cropped["crop_rounding"] = how.crop_rounding
    if isinstance(how.resize, tuple):
        stretched = {"size": {"height": how.resize[0], "width": how.resize[1]}}
        return {"image_processor_type": "DeiTImageProcessor"} | settings | cropped | stretched
    shorter = {"size": {"shortest_edge": how.resize}}
    return {"image_processor_type": "BitImageProcessor"} | settings | cropped | shorter
