"""Run transformers' image processors (with torchvision) on the settings of folders.

stdin: {folders: {folder: [picture]}}; stdout: {folder: [pixel values]}.
"""

import json
import sys

import torch
from tensors import encode

MISSING = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}

if not torch.version.cuda:
    # The operators of torchvision do not load with this build of torch. Nothing here calls them,
    # but the import of torchvision needs the signatures of two.
    library = torch.library.Library("torchvision", "DEF")
    for name, arguments in MISSING.items():
        library.define(name + arguments)

from PIL import Image  # noqa: E402
from transformers import AutoImageProcessor  # noqa: E402


def run(processor, picture):
    """Return the encoded pixel values of a picture."""
    with Image.open(picture) as image:
        return encode(processor(image, return_tensors="np")["pixel_values"])


results = {}
for folder, pictures in json.load(sys.stdin)["folders"].items():
    processor = AutoImageProcessor.from_pretrained(folder)
    results[folder] = [run(processor, picture) for picture in pictures]
json.dump(results, sys.stdout)
