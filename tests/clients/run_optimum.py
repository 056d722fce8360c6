"""Run Optimum on a folder, with its class for features and its class for all outputs.

stdin: {folder, files, pixel_values}; stdout: {file: {class: tensors}}.
"""

import json
import sys

import torch
from optimum.onnxruntime import ORTModelForCustomTasks, ORTModelForFeatureExtraction
from tensors import decode, encode_all

CLASSES = (ORTModelForFeatureExtraction, ORTModelForCustomTasks)


def run(model_class, file):
    """Return the encoded outputs of a file in a class of Optimum."""
    model = model_class.from_pretrained(request["folder"], subfolder="onnx", file_name=file)
    outputs = model(pixel_values=torch.tensor(decode(request["pixel_values"])))
    return encode_all({name: value.numpy() for name, value in outputs.items()})


request = json.load(sys.stdin)
answer = {
    file: {model_class.__name__: run(model_class, file) for model_class in CLASSES}
    for file in request["files"]
}
json.dump(answer, sys.stdout)
