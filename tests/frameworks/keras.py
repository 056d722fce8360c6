"""Keras 3 on JAX: ``stateless_call`` is a function of a layer's variables and its inputs."""

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
from keras import layers

from tests.frameworks.rows import IMAGE, SEQUENCE, TOKENS, Bound, Row, draw, spaces, subclasses

FLAT = (("B", 4),)


def keras_(
    make: Callable[[], Any], call: Callable[..., Any] = lambda layer, *xs: layer(*xs)
) -> Callable[..., Bound]:
    """Return ``bind`` for a layer or model that ``make`` returns. ``call`` applies it to its
    inputs."""

    def bind(*inputs: Any) -> Bound:
        model_inputs = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in inputs]
        model = keras.Model(model_inputs, call(make(), *model_inputs))
        kinds = (model.trainable_variables, model.non_trainable_variables)

        def fn(params: Any, *xs: Any) -> Any:
            return model.stateless_call(*params, [*xs], training=False)[0]

        return fn, draw(jax.eval_shape(lambda: [[v.value for v in kind] for kind in kinds]))

    return bind


def of(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    return keras_(lambda: layer(*args, **options))


def of_list(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a layer that takes its inputs as a list."""
    return keras_(lambda: layer(*args, **options), lambda layer, *xs: layer([*xs]))


TWO = (("B", 4), ("B", 4))
MERGING = ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "Average", "Concatenate")


def tower() -> keras.Model:
    """Return a model with a BatchNorm between convolutions, as in a ResNet."""
    x = model_input = layers.Input((9, 7, 4))
    x = layers.Conv2D(6, 3, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Add()([layers.Conv2D(4, 1)(x), model_input])
    return keras.Model(model_input, layers.AveragePooling2D(3, 2, padding="same")(x))


LAYERS = [
    Row("Dense", of(layers.Dense, 5, activation="gelu"), FLAT),
    Row("EinsumDense", of(layers.EinsumDense, "btc,chd->bthd", (None, 2, 3), bias_axes="hd"),
        SEQUENCE),
    Row("Embedding", of(layers.Embedding, 7, 4), TOKENS),
    Row("ReversibleEmbedding", keras_(lambda: layers.ReversibleEmbedding(7, 4),
        lambda layer, x: layer(layer(x), reverse=True)), TOKENS),
    Row("Activation", of(layers.Activation, "gelu"), FLAT),
    Row("Lambda", of(layers.Lambda, lambda x: x * 2), FLAT),
    Row("Identity", of(layers.Identity), FLAT),
    Row("Masking", of(layers.Masking), SEQUENCE),
    Row("ActivityRegularization", of(layers.ActivityRegularization, 0.1), FLAT),
    Row("ReLU", of(layers.ReLU), FLAT),
    Row("ReLU, up to six", of(layers.ReLU, 6.0), FLAT),
    Row("LeakyReLU", of(layers.LeakyReLU, 0.2), FLAT),
    Row("PReLU", of(layers.PReLU), FLAT),
    Row("ELU", of(layers.ELU), FLAT),
    Row("Softmax", of(layers.Softmax), FLAT),
    *spaces(layers, of, "Conv{}D", 6, 3, strides=2),
    Row("Conv2D, dilated", of(layers.Conv2D, 6, 3, padding="same", dilation_rate=2), IMAGE),
    Row("Conv2D, grouped", of(layers.Conv2D, 6, (3, 2), groups=2), IMAGE),
    *spaces(layers, of, "Conv{}DTranspose", 6, 3, strides=2, padding="same"),
    *spaces(layers, of, "DepthwiseConv{}D", 3),
    *spaces(layers, of, "SeparableConv{}D", 6, 3),
    *spaces(layers, of, "AveragePooling{}D", 3, 2, padding="same"),
    *spaces(layers, of, "MaxPooling{}D", 3, 2),
    *spaces(layers, of, "GlobalAveragePooling{}D"),
    *spaces(layers, of, "GlobalMaxPooling{}D"),
    *spaces(layers, of, "AdaptiveAveragePooling{}D", 3),
    *spaces(layers, of, "AdaptiveMaxPooling{}D", 3),
    *spaces(layers, of, "UpSampling{}D", 2),
    *spaces(layers, of, "ZeroPadding{}D", 2),
    *spaces(layers, of, "Cropping{}D", 1),
    *spaces(layers, of, "SpatialDropout{}D", 0.5),
    Row("UpSampling2D, bilinear", of(layers.UpSampling2D, 2, interpolation="bilinear"), IMAGE),
    Row("BatchNormalization", of(layers.BatchNormalization), IMAGE),
    Row("BatchNormalization, between convolutions", keras_(tower), IMAGE),
    Row("LayerNormalization", of(layers.LayerNormalization), SEQUENCE),
    Row("RMSNormalization", of(layers.RMSNormalization), SEQUENCE),
    Row("GroupNormalization", of(layers.GroupNormalization, 2), IMAGE),
    Row("UnitNormalization", of(layers.UnitNormalization), SEQUENCE),
    Row("SpectralNormalization", keras_(lambda: layers.SpectralNormalization(layers.Dense(5)),
        lambda layer, x: layer(x, training=False)), FLAT),
    Row("Normalization", of(layers.Normalization, mean=[1.0, 2, 3, 4], variance=[1.0, 2, 3, 4]),
        FLAT),
    *(Row(name, of(vars(layers)[name], 0.5), FLAT)
        for name in ("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise")),
    Row("Flatten", of(layers.Flatten), IMAGE),
    Row("Reshape", of(layers.Reshape, (2, -1)), SEQUENCE),
    Row("Permute", of(layers.Permute, (2, 1)), SEQUENCE),
    Row("RepeatVector", of(layers.RepeatVector, 3), FLAT),
    *(Row(name, of_list(vars(layers)[name]), TWO) for name in MERGING),
    Row("Dot", of_list(layers.Dot, 2), (("B", 5, 4), ("B", 6, 4))),
]  # fmt: skip

PAIR = (("B", 5, 4), ("B", 6, 4))
STATES = (("B", 6), ("B", 6))
MOVIE = {1: (("B", 5, 7, 4),), 2: (("B", 5, 7, 6, 4),), 3: (("B", 3, 7, 6, 5, 4),)}


def state(layer: Any, x: Any, *carry: Any) -> Any:
    return layer(x, [*carry])


def recurrent(layer: Any, **options: Any) -> Any:
    return of(layer, 6, return_sequences=True, return_state=True, **options)


SEQUENCES = [
    Row("Attention", of_list(layers.Attention), PAIR),
    Row("AdditiveAttention", of_list(layers.AdditiveAttention), PAIR),
    Row("MultiHeadAttention", of(layers.MultiHeadAttention, 2, 3), PAIR),
    Row("MultiHeadAttention, causal", keras_(lambda: layers.MultiHeadAttention(2, 3),
        lambda layer, x, y: layer(x, x, use_causal_mask=True)), PAIR),
    Row("GroupedQueryAttention", of(layers.GroupQueryAttention, head_dim=3, num_query_heads=4,
        num_key_value_heads=2), PAIR),
    Row("LSTMCell", keras_(lambda: layers.LSTMCell(6), state), (("B", 4), *STATES)),
    Row("GRUCell", keras_(lambda: layers.GRUCell(6), state), (("B", 4), ("B", 6))),
    Row("SimpleRNNCell", keras_(lambda: layers.SimpleRNNCell(6), state), (("B", 4), ("B", 6))),
    Row("StackedRNNCells", keras_(lambda: layers.RNN(layers.StackedRNNCells(
        [layers.LSTMCell(6), layers.GRUCell(5)]))), SEQUENCE),
    Row("RNN", keras_(lambda: layers.RNN(layers.LSTMCell(6))), SEQUENCE),
    Row("LSTM", recurrent(layers.LSTM), SEQUENCE),
    Row("LSTM, backwards", recurrent(layers.LSTM, go_backwards=True), SEQUENCE),
    Row("GRU", recurrent(layers.GRU), SEQUENCE),
    Row("SimpleRNN", recurrent(layers.SimpleRNN), SEQUENCE),
    Row("Bidirectional", keras_(lambda: layers.Bidirectional(layers.LSTM(6))), SEQUENCE),
    Row("Masking, before an LSTM", keras_(
        lambda: keras.Sequential([layers.Masking(), layers.LSTM(6)])), SEQUENCE),
    *(Row(f"ConvLSTM{n}D", of(vars(layers)[f"ConvLSTM{n}D"], 6, 3), shape)
        for n, shape in MOVIE.items()),
    Row("TimeDistributed", keras_(lambda: layers.TimeDistributed(layers.Dense(5))), SEQUENCE),
    Row("JaxLayer",
        keras_(lambda: layers.JaxLayer(lambda params, inputs: jax.nn.gelu(inputs @ params["w"]),
        params={"w": np.ones((4, 5), np.float32)})), FLAT),
]  # fmt: skip

PHOTO = (("B", 9, 8, 3),)
AUGMENTING = (
    *("AugMix", "RandAugment", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter"),
    *("RandomContrast", "RandomElasticTransform", "RandomErasing", "RandomFlip"),
    *("RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective"),
    *("RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness"),
    *("RandomShear", "RandomTranslation", "RandomZoom"),
)
"""Layers that return images unchanged at inference."""
HALF = ("Brightness", "ColorDegeneration", "Contrast", "Hue", "Rotation", "Saturation", "Sharpness")
OPTIONS: dict[str, dict[str, Any]] = {
    **{f"Random{name}": {"factor": 0.5} for name in HALF},
    "RandomPosterization": {"factor": 4},
    "RandomTranslation": {"height_factor": 0.1, "width_factor": 0.1},
    "RandomZoom": {"height_factor": 0.1},
}

PREPROCESSING = [
    Row("Rescaling", of(layers.Rescaling, 1 / 127.5, offset=-1), PHOTO),
    Row("Resizing", of(layers.Resizing, 5, 6), PHOTO),
    Row("CenterCrop", of(layers.CenterCrop, 5, 4), PHOTO),
    Row("RandomCrop", of(layers.RandomCrop, 5, 4), PHOTO),
    Row("Solarization", of(layers.Solarization), PHOTO),
    Row("AutoContrast", of(layers.AutoContrast), PHOTO),
    Row("ContrastLimitedAdaptiveHistogramEqualization",
        of(layers.ContrastLimitedAdaptiveHistogramEqualization, tile_grid_size=(3, 2)), PHOTO),
    Row("Discretization", of(layers.Discretization, bin_boundaries=[-0.5, 0.0, 1.0]), FLAT),
    Row("CategoryEncoding", of(layers.CategoryEncoding, 5), ((("B", 3), np.int32),)),
    Row("STFTSpectrogram", of(layers.STFTSpectrogram, frame_length=16), (("B", 96, 1),)),
    *(Row(name, of(vars(layers)[name], **OPTIONS.get(name, {})), PHOTO) for name in AUGMENTING),
]  # fmt: skip

ROWS = [*LAYERS, *SEQUENCES, *PREPROCESSING]
WORDS = ("HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization")
EXCLUDED = {
    "Equalization": "Keras cannot use it in a model with a dynamic batch size",
    "MelSpectrogram": "to come with complex numbers",
    **dict.fromkeys(("Layer", "Wrapper"), "a base class of other layers"),
    "InputLayer": "it represents an input",
    "Pipeline": "a list of preprocessing layers, which are in the table",
    **dict.fromkeys(("MixUp", "CutMix"), "it mixes images with their labels, only in training"),
    "MaxNumBoundingBoxes": "it pads dictionaries of boxes for training",
    **dict.fromkeys(WORDS, "it accepts or returns strings, in Python"),
    "FlaxLayer": "it requires TensorFlow for tracing; you can convert the Linen module itself",
    **dict.fromkeys(("TFSMLayer", "TorchModuleWrapper"), "it wraps a module of another framework"),
}
"""Public layers without a row, with the reason."""


def public() -> set[str]:
    return subclasses(layers, layers.Layer)
