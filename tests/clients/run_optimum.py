"""Optimum on a folder: its class for features, and the one that gives all outputs.

stdin: {folder, files, pixel_values}; stdout: {file: {class: tensors}}.
"""

import json
import sys

import torch
from optimum.onnxruntime import ORTModelForCustomTasks, ORTModelForFeatureExtraction
from tensors import decode, encode_all

CLASSES = (ORTModelForFeatureExtraction, ORTModelForCustomTasks)


def run(kind, file):
    model = kind.from_pretrained(asked["folder"], subfolder="onnx", file_name=file)
    outputs = model(pixel_values=torch.tensor(decode(asked["pixel_values"])))
    return encode_all({name: value.numpy() for name, value in outputs.items()})


asked = json.load(sys.stdin)
answer = {file: {kind.__name__: run(kind, file) for kind in CLASSES} for file in asked["files"]}
json.dump(answer, sys.stdout)
