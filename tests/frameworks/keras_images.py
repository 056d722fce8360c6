"""Keras' preprocessing: what changes images or numbers, and what only training does."""

from typing import Any

import numpy as np

from tests.frameworks.keras_binding import FLAT, layers, of
from tests.frameworks.rows import Row, subclasses

PHOTO = (("B", 9, 8, 3),)
MONO = (("B", 96, 1),)
CODES = ((("B", 3), np.int32),)
HALF: dict[str, Any] = {"factor": 0.5}
AUGMENTING: dict[str, dict[str, Any]] = {
    "AugMix": {},
    "RandAugment": {},
    "RandomBrightness": HALF,
    "RandomColorDegeneration": HALF,
    "RandomColorJitter": {},
    "RandomContrast": HALF,
    "RandomElasticTransform": {},
    "RandomErasing": {},
    "RandomFlip": {},
    "RandomGaussianBlur": {},
    "RandomGrayscale": {},
    "RandomHue": HALF,
    "RandomInvert": {},
    "RandomPerspective": {},
    "RandomPosterization": {"factor": 4},
    "RandomRotation": HALF,
    "RandomSaturation": HALF,
    "RandomSharpness": HALF,
    "RandomShear": {},
    "RandomTranslation": {"height_factor": 0.1, "width_factor": 0.1},
    "RandomZoom": {"height_factor": 0.1},
}
"""What leaves images alone at inference."""

ROWS = [
    Row("Rescaling", of(layers.Rescaling, 1 / 127.5, offset=-1), PHOTO),
    Row("Resizing", of(layers.Resizing, 5, 6), PHOTO, {"Resize": 1}),
    Row("CenterCrop", of(layers.CenterCrop, 5, 4), PHOTO),
    Row("RandomCrop", of(layers.RandomCrop, 5, 4), PHOTO),
    Row("Solarization", of(layers.Solarization), PHOTO),
    Row("AutoContrast", of(layers.AutoContrast), PHOTO),
    Row("ContrastLimitedAdaptiveHistogramEqualization",
        of(layers.ContrastLimitedAdaptiveHistogramEqualization, tile_grid_size=(3, 2)), PHOTO),
    Row("Discretization", of(layers.Discretization, bin_boundaries=[-0.5, 0.0, 1.0]), FLAT),
    Row("CategoryEncoding", of(layers.CategoryEncoding, 5), CODES),
    Row("STFTSpectrogram", of(layers.STFTSpectrogram, frame_length=16), MONO),
    *(Row(name, of(vars(layers)[name], **options), PHOTO, {"Identity": 1})
      for name, options in AUGMENTING.items()),
]  # fmt: skip

BASE = "a base of other layers"
WORDS = "takes or gives strings, in Python"
OTHERS = "holds a module of another framework"
LEFT = {
    "Equalization": "Keras itself cannot put it into a model of named batch",
    "MelSpectrogram": "to come with complex numbers",
    "Layer": BASE,
    "Wrapper": BASE,
    "InputLayer": "stands for an input",
    "Pipeline": "a list of preprocessing layers that are here",
    "MixUp": "mixes images with their labels, in training alone",
    "CutMix": "mixes images with their labels, in training alone",
    "MaxNumBoundingBoxes": "pads dictionaries of boxes for training",
    "HashedCrossing": WORDS,
    "Hashing": WORDS,
    "IntegerLookup": WORDS,
    "StringLookup": WORDS,
    "TextVectorization": WORDS,
    "FlaxLayer": "asks for tensorflow, to trace with; a Linen module converts by itself",
    "TFSMLayer": OTHERS,
    "TorchModuleWrapper": OTHERS,
}


def public() -> set[str]:
    return subclasses(layers, layers.Layer)
