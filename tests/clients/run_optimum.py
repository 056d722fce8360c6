"""Optimum on folders: its class for features, and the one that gives all outputs.

stdin: {folders: {folder: {files, pixel_values}}}; stdout: {folder: {file: {class: tensors}}}.
"""

import json
import sys

import torch
from optimum.onnxruntime import ORTModelForCustomTasks, ORTModelForFeatureExtraction
from tensors import decode, encode_all

CLASSES = (ORTModelForFeatureExtraction, ORTModelForCustomTasks)


def run(kind, folder, file, pixel_values):
    model = kind.from_pretrained(folder, subfolder="onnx", file_name=file)
    outputs = model(pixel_values=torch.tensor(pixel_values))
    return encode_all({name: value.numpy() for name, value in outputs.items()})


json.dump(
    {
        folder: {
            file: {
                kind.__name__: run(kind, folder, file, decode(asked["pixel_values"]))
                for kind in CLASSES
            }
            for file in asked["files"]
        }
        for folder, asked in json.load(sys.stdin)["folders"].items()
    },
    sys.stdout,
)
