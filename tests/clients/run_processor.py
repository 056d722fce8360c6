"""transformers' image processors, those of torchvision, on folders.

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
    # torchvision's own operators are built for the other torch and do not load. Nothing here
    # calls them, but it wants to know the arguments of two before it lets itself be imported.
    library = torch.library.Library("torchvision", "DEF")
    for name, arguments in MISSING.items():
        library.define(name + arguments)

from PIL import Image  # noqa: E402
from transformers import AutoImageProcessor  # noqa: E402


def run(processor, picture):
    with Image.open(picture) as image:
        return encode(processor(image, return_tensors="np")["pixel_values"])


results = {}
for folder, pictures in json.load(sys.stdin)["folders"].items():
    processor = AutoImageProcessor.from_pretrained(folder)
    results[folder] = [run(processor, picture) for picture in pictures]
json.dump(results, sys.stdout)
