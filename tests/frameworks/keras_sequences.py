"""Keras' attention, recurrent layers and wrappers, and its application models."""

from typing import Any

import jax
import numpy as np

from tests.frameworks.keras_binding import FLAT, SEQUENCE, keras, keras_, layers, of, of_list
from tests.frameworks.rows import Row

PAIR = (("B", 5, 4), ("B", 6, 4))
STATES = (("B", 6), ("B", 6))
ATTENTION = {"Attention": 1}
MOVIE = {1: (("B", 5, 7, 4),), 2: (("B", 5, 7, 6, 4),), 3: (("B", 3, 7, 6, 5, 4),)}


def state(layer: Any, x: Any, *carry: Any) -> Any:
    return layer(x, [*carry])


def recurrent(layer: Any, **options: Any) -> Any:
    return of(layer, 6, return_sequences=True, return_state=True, **options)


def grouped() -> Any:
    return layers.GroupQueryAttention(head_dim=3, num_query_heads=4, num_key_value_heads=2)


def causal(layer: Any, x: Any, y: Any) -> Any:
    return layer(x, x, use_causal_mask=True)


ROWS = [
    Row("Attention", of_list(layers.Attention), PAIR, ATTENTION),
    Row("AdditiveAttention", of_list(layers.AdditiveAttention), PAIR),
    Row("MultiHeadAttention", of(layers.MultiHeadAttention, 2, 3), PAIR, ATTENTION),
    Row("MultiHeadAttention, causal", keras_(lambda: layers.MultiHeadAttention(2, 3), causal),
        PAIR, ATTENTION),
    Row("GroupedQueryAttention", keras_(grouped), PAIR, ATTENTION),
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
    Row("JaxLayer", keras_(lambda: layers.JaxLayer(
        lambda params, inputs: jax.nn.gelu(inputs @ params["w"]),
        params={"w": np.ones((4, 5), np.float32)})), FLAT, {"Gelu": 1}),
]  # fmt: skip
