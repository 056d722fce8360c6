"""Keras' layers for products, convolutions, pooling, norms and shapes."""

import numpy as np

from tests.frameworks.keras_binding import (
    FLAT,
    IMAGE,
    SEQUENCE,
    keras,
    keras_,
    layers,
    of,
    of_list,
    spaces,
)
from tests.frameworks.rows import Row

TWO = (("B", 4), ("B", 4))
TOKENS = ((("B", 5), np.int32),)
MERGING = {
    **{"Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min"},
    **{"Average": "Add", "Concatenate": "Concat"},
}
CONV, UP = {"Conv": 1, "Add": 0}, {"ConvTranspose": 1, "Add": 0}


def tower() -> keras.Model:
    """A BatchNorm between convolutions, as in a ResNet."""
    x = given = layers.Input((9, 7, 4))
    x = layers.Conv2D(6, 3, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Add()([layers.Conv2D(4, 1)(x), given])
    return keras.Model(given, layers.AveragePooling2D(3, 2, padding="same")(x))


ROWS = [
    Row("Dense", of(layers.Dense, 5, activation="gelu"), FLAT, {"MatMul": 1, "Gelu": 1}),
    Row("EinsumDense", of(layers.EinsumDense, "btc,chd->bthd", (None, 2, 3), bias_axes="hd"),
        SEQUENCE, {"MatMul": 1}),
    Row("Embedding", of(layers.Embedding, 7, 4), TOKENS, {"Gather": 1}),
    Row("ReversibleEmbedding", keras_(lambda: layers.ReversibleEmbedding(7, 4),
        lambda layer, x: layer(layer(x), reverse=True)), TOKENS, {"MatMul": 1}),
    Row("Activation", of(layers.Activation, "gelu"), FLAT, {"Gelu": 1}),
    Row("Lambda", of(layers.Lambda, lambda x: x * 2), FLAT, {"Mul": 1}),
    Row("Identity", of(layers.Identity), FLAT),
    Row("Masking", of(layers.Masking), SEQUENCE),
    Row("ActivityRegularization", of(layers.ActivityRegularization, 0.1), FLAT),
    Row("ReLU", of(layers.ReLU), FLAT, {"Relu": 1}),
    Row("ReLU, up to six", of(layers.ReLU, 6.0), FLAT, {"Clip": 1}),
    Row("LeakyReLU", of(layers.LeakyReLU, 0.2), FLAT, {"LeakyRelu": 1}),
    Row("PReLU", of(layers.PReLU), FLAT),
    Row("ELU", of(layers.ELU), FLAT, {"Elu": 1}),
    Row("Softmax", of(layers.Softmax), FLAT, {"Softmax": 1}),
    *spaces("Conv{}D", 6, 3, strides=2, fused=CONV),
    Row("Conv2D, dilated", of(layers.Conv2D, 6, 3, padding="same", dilation_rate=2), IMAGE, CONV),
    Row("Conv2D, grouped", of(layers.Conv2D, 6, (3, 2), groups=2), IMAGE, CONV),
    *spaces("Conv{}DTranspose", 6, 3, strides=2, padding="same", fused=UP),
    *spaces("DepthwiseConv{}D", 3, fused=CONV),
    *spaces("SeparableConv{}D", 6, 3, fused={"Conv": 2, "Add": 0}),
    *spaces("AveragePooling{}D", 3, 2, padding="same", fused={"AveragePool": 1, "Div": 0}),
    *spaces("MaxPooling{}D", 3, 2, fused={"MaxPool": 1}),
    *spaces("GlobalAveragePooling{}D"),
    *spaces("GlobalMaxPooling{}D"),
    *spaces("AdaptiveAveragePooling{}D", 3),
    *spaces("AdaptiveMaxPooling{}D", 3),
    *spaces("UpSampling{}D", 2),
    *spaces("ZeroPadding{}D", 2, fused={"Pad": 1}),
    *spaces("Cropping{}D", 1),
    *spaces("SpatialDropout{}D", 0.5, fused={"Identity": 1}),
    Row("UpSampling2D, bilinear", of(layers.UpSampling2D, 2, interpolation="bilinear"), IMAGE,
        {"Resize": 1}),
    Row("BatchNormalization", of(layers.BatchNormalization), IMAGE),
    Row("BatchNormalization, between convolutions", keras_(tower), IMAGE,
        {"Conv": 2, "BatchNormalization": 0, "AveragePool": 1, "Transpose": 2}),
    Row("LayerNormalization", of(layers.LayerNormalization), SEQUENCE, {"LayerNormalization": 1}),
    Row("RMSNormalization", of(layers.RMSNormalization), SEQUENCE, {"RMSNormalization": 1}),
    Row("GroupNormalization", of(layers.GroupNormalization, 2), IMAGE),
    Row("UnitNormalization", of(layers.UnitNormalization), SEQUENCE),
    Row("SpectralNormalization", keras_(
        lambda: layers.SpectralNormalization(layers.Dense(5)),
        lambda layer, x: layer(x, training=False)), FLAT, {"MatMul": 1}),
    Row("Normalization", of(layers.Normalization, mean=[1.0, 2, 3, 4], variance=[1.0, 2, 3, 4]),
        FLAT),
    Row("Dropout", of(layers.Dropout, 0.5), FLAT, {"Identity": 1}),
    Row("AlphaDropout", of(layers.AlphaDropout, 0.5), FLAT, {"Identity": 1}),
    Row("GaussianDropout", of(layers.GaussianDropout, 0.5), FLAT, {"Identity": 1}),
    Row("GaussianNoise", of(layers.GaussianNoise, 0.5), FLAT, {"Identity": 1}),
    Row("Flatten", of(layers.Flatten), IMAGE, {"Reshape": 1}),
    Row("Reshape", of(layers.Reshape, (2, -1)), SEQUENCE, {"Reshape": 1}),
    Row("Permute", of(layers.Permute, (2, 1)), SEQUENCE, {"Transpose": 1}),
    Row("RepeatVector", of(layers.RepeatVector, 3), FLAT),
    *(Row(name, of_list(vars(layers)[name]), TWO, {op: 1}) for name, op in MERGING.items()),
    Row("Dot", of_list(layers.Dot, 2), (("B", 5, 4), ("B", 6, 4)), {"MatMul": 1}),
]  # fmt: skip
